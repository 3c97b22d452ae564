#pragma once
// Gathers every fault of a plan, each with the place it was written at and the keys that lead there, and reads typed
// fields so that all refusals read alike: "tensors[3].shard.0.unit: found 4.0 (float), expected an integer of 1 or
// more".

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/base/value.hpp"

namespace reshard::plan {

/// A value of the plan and where it stands. `path` is empty for the root.
struct Node {
  const Value* value = nullptr;
  std::string path;
  Position position;  ///< of the value, or of its key where the value has no text of its own

  const Value& operator*() const { return *value; }
  const Value* operator->() const { return value; }
};

/// "4.0 (float)", "'yes' (string)", "null", "a map": what was found, for messages.
std::string describe(const Value& value);

/// "a, b, c".
std::string join(std::span<const std::string> names);

/// The name that needs the fewest edits; nothing where `names` is empty.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> names);

/// " (did you mean 'unit'?)" where a name is close enough to be meant, else nothing.
std::string suggestion(std::string_view name, std::span<const std::string> names);

class Faults {
 public:
  /// `source` names the text in places: "plan.yaml:7:5".
  explicit Faults(std::string_view source) : source_(source) {}

  /// Equal faults (both sides of a rule read the same text) count once. Beyond 10,000 they are only counted.
  void add(ErrorCode code, const Node& at, std::string_view message);
  void add(ErrorCode code, Position position, std::string_view path, std::string_view message);
  /// A fault without a place in the text: `where` is an option of the command line.
  void add_option(ErrorCode code, std::string_view where, std::string message);

  /// How often something was reported, equal faults too: whether a part of the plan was read without fault.
  std::size_t reports() const { return reports_; }
  /// All faults in one Error with exit 3, in the order of the text.
  void throw_if_any() const;

 private:
  struct Entry {
    Position position;
    Issue issue;
  };

  std::string source_;
  std::vector<Entry> entries_;
  std::set<std::tuple<ErrorCode, std::string, std::string>> seen_;
  std::size_t reports_ = 0;
  std::size_t not_listed_ = 0;
};

/// An item of a list or a member of a map.
Node child(const Node& parent, std::size_t index);
Node child(const Node& parent, const Value::Member& member);

/// The fields of a map whose keys are fixed. Unknown keys are faults with the nearest legal key; reserved ones (section
/// 13) are E_UNSUPPORTED.
class Fields {
 public:
  Fields(Node map, std::span<const std::string> legal, Faults& faults);

  const Node& map() const { return map_; }
  /// False: the value was no map, which has been reported.
  bool is_map() const { return map_->is_object(); }
  std::optional<Node> find(std::string_view key) const;
  /// Reports where the key is missing.
  std::optional<Node> require(std::string_view key, Faults& faults) const;

 private:
  Node map_;
};

/// Each reports what was found and expected, and returns nothing, where the value is of another kind or out of range.
std::optional<std::int64_t> read_integer(const Node& node, std::int64_t least, Faults& faults,
                                         ErrorCode out_of_range = ErrorCode::kSchema);
std::optional<std::string> read_string(const Node& node, Faults& faults);
std::optional<bool> read_boolean(const Node& node, Faults& faults);
/// The position of the string in `choices`.
std::optional<std::size_t> read_choice(const Node& node, std::span<const std::string> choices, Faults& faults);
bool expect_map(const Node& node, std::string_view what, Faults& faults);
/// A map with free keys: one with more than kMaxEntries is refused, so that pairwise checks of entries stay cheap.
bool expect_small_map(const Node& node, std::string_view what, Faults& faults);
inline constexpr std::size_t kMaxEntries = 1024;
bool expect_list(const Node& node, std::string_view what, Faults& faults);

}  // namespace reshard::plan
