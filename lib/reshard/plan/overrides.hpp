#pragma once
// What a rule says of one side, before it is read: `projection` written out, then the `source:` or `target:` overrides
// merged in (section 4). All on values, so that the reader sees one placement per side as if it had been written so.

#include <optional>
#include <string>

#include "reshard/base/value.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

/// At most one of shard and place is set. Positions are those of the text each value came from.
struct SideWords {
  std::optional<Value> shard;
  std::optional<Value> place;
  std::optional<Value> members;
  std::optional<Value> view;
  std::optional<Value> owner;
};

/// The rule's own words, for both sides. Reports kSchema: shard beside place, projection beside members or place.
SideWords base_words(const Fields& rule, Faults& faults);

/// The words of one side: the base with the map under `source` or `target` merged in. Reports kSchema.
SideWords merge_words(const SideWords& base, const Node& overrides, Faults& faults);

/// `shard` merged per dim: an object key by key (a bare name or list counts as {axes: ...}), a name or list replaces
/// the entry, null removes the entry, or inside an object the key.
Value merge_shard(const Value& base, const Value& overrides);

}  // namespace reshard::plan
