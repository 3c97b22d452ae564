#include "reshard/plan/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reshard::plan {
namespace {

const std::vector<std::string> kKeys = {"shard", "place", "members", "view", "owner"};
const std::vector<std::string> kProjections = {"column", "row"};

/// A value with the place that messages shall name, which for null is its key's.
Value placed(const Node& node) {
  Value value = *node;
  value.position = node.position;
  return value;
}

Value object(Value::Object members, Position at) {
  for (Value::Member& member : members) member.position = member.value.position = at;
  Value value(std::move(members));
  value.position = at;
  return value;
}

/// An affine layer (section 8): weight [out, in] and bias [out], cut along `out` (column) or `in` (row, where the bias
/// stays whole).
SideWords projection_words(bool column, Position at) {
  SideWords words;
  words.shard = object({{column ? "out" : "in", Value("tp"), {}}}, at);
  words.members = object({{"weight", Value("out in"), {}}, {"bias?", Value("out"), {}}}, at);
  return words;
}

void set(std::optional<Value>& word, const std::optional<Node>& given) {
  if (!given) return;
  word = (*given)->is_null() ? std::nullopt : std::optional(placed(*given));
}

Value::Object::iterator find_key(Value::Object& object, const std::string& key) {
  return std::find_if(object.begin(), object.end(), [&](const Value::Member& member) { return member.key == key; });
}

void merge_entry(Value::Object& dims, const Value::Member& change) {
  auto entry = find_key(dims, change.key);
  if (change.value.is_null()) {
    if (entry != dims.end()) dims.erase(entry);
    return;
  }
  if (entry == dims.end()) entry = dims.insert(dims.end(), {change.key, Value(), change.position});
  if (!change.value.is_object() || change.value.object().size() > kMaxEntries) {
    *entry = change;
    return;
  }
  Value::Object options;
  if (entry->value.is_object()) {
    options = entry->value.object();
  } else if (!entry->value.is_null()) {
    options.push_back({"axes", entry->value, entry->position});
  }
  for (const Value::Member& option : change.value.object()) {
    const auto known = find_key(options, option.key);
    if (known != options.end()) options.erase(known);
    if (!option.value.is_null()) options.push_back(option);
  }
  entry->value = Value(std::move(options));
  entry->value.position = change.value.position;
  entry->position = change.position;
}

}  // namespace

Value merge_shard(const Value& base, const Value& overrides) {
  // What is too large to be a map of dims is refused by its reader.
  if (!overrides.is_object() || overrides.object().size() > kMaxEntries) return overrides;
  Value merged = base.is_object() ? base : Value(Value::Object{});
  merged.position = overrides.position;
  for (const Value::Member& change : overrides.object()) merge_entry(merged.object(), change);
  return merged;
}

SideWords base_words(const Fields& rule, Faults& faults) {
  SideWords words;
  const auto shard = rule.find("shard");
  const auto place = rule.find("place");
  const auto members = rule.find("members");
  if (const auto projection = rule.find("projection")) {
    if (members) faults.add(ErrorCode::kSchema, *members, "excludes 'projection', which names the members itself");
    if (place) faults.add(ErrorCode::kSchema, *place, "excludes 'projection'; add to its cut with 'shard'");
    if (const auto choice = read_choice(*projection, kProjections, faults))
      words = projection_words(*choice == 0, projection->position);
    if (shard && !(*shard)->is_null()) {
      words.shard = merge_shard(words.shard.value_or(Value(Value::Object{})), placed(*shard));
    } else if (shard) {
      words.shard.reset();
    }
  } else {
    if (shard && place) faults.add(ErrorCode::kSchema, *place, "excludes 'shard'; a rule has one of them");
    if (shard) words.shard = placed(*shard);
    if (place && !shard) words.place = placed(*place);
    if (members) words.members = placed(*members);
  }
  if (const auto view = rule.find("view")) words.view = placed(*view);
  if (const auto owner = rule.find("owner")) words.owner = placed(*owner);
  return words;
}

SideWords merge_words(const SideWords& base, const Node& overrides, Faults& faults) {
  SideWords words = base;
  const Fields fields(overrides, kKeys, faults);
  const auto shard = fields.find("shard");
  const auto place = fields.find("place");
  if (shard && place) faults.add(ErrorCode::kSchema, *place, "excludes 'shard'; a side has one of them");
  if (shard) {
    words.place.reset();
    if ((*shard)->is_null()) {
      words.shard.reset();
    } else {
      words.shard = merge_shard(words.shard.value_or(Value(Value::Object{})), placed(*shard));
    }
  } else if (place) {
    words.shard.reset();
    set(words.place, place);
  }
  set(words.members, fields.find("members"));
  set(words.view, fields.find("view"));
  set(words.owner, fields.find("owner"));
  return words;
}

}  // namespace reshard::plan
