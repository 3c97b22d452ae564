#include "reshard/plan/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace reshard::plan {
namespace {

constexpr std::array<std::string_view, 6> kReserved = {"concat", "stack", "transpose", "flat", "quantize", "include"};

/// Levenshtein distance; names are short.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

constexpr std::size_t kMaxFaults = 10000;

/// Long enough for every key and axis name; a megabyte of text is quoted by its beginning.
constexpr std::size_t kQuoted = 100;
constexpr std::size_t kMaxMessage = 2000;

/// The beginning of a long text, cut between characters.
std::string clipped(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0U) == 0x80) --limit;
  return fmt::format("{}...", text.substr(0, limit));
}

std::string quoted(std::string_view text) {
  return fmt::format("'{}'", clipped(text, kQuoted));
}

}  // namespace

std::string describe(const Value& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return value.boolean() ? "true (boolean)" : "false (boolean)";
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_float()) return fmt::format("{} (float)", value.floating().text);
  if (value.is_string()) return quoted(value.string()) + " (string)";
  return fmt::format("a {}", value.kind());
}

std::string join(std::span<const std::string> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> names) {
  std::optional<std::string> best;
  std::size_t best_edits = 0;
  for (const std::string& candidate : names) {
    const std::size_t distance = edits(name.substr(0, kQuoted), candidate);
    if (best && distance >= best_edits) continue;
    best = candidate;
    best_edits = distance;
  }
  return best;
}

std::string suggestion(std::string_view name, std::span<const std::string> names) {
  const std::optional<std::string> best = nearest(name, names);
  if (!best || name.size() > kQuoted) return "";
  const bool close = edits(name, *best) <= std::max<std::size_t>(1, std::max(name.size(), best->size()) / 3);
  return close ? fmt::format(" (did you mean '{}'?)", *best) : "";
}

void Faults::add(ErrorCode code, const Node& at, std::string_view message) {
  add(code, at.position, at.path, message);
}

void Faults::add(ErrorCode code, Position position, std::string_view path, std::string_view message) {
  ++reports_;
  std::string where = position.line > 0 ? fmt::format("{}:{}:{}", source_, position.line, position.column) : source_;
  const std::string said = clipped(message, kMaxMessage);
  std::string text = path.empty() ? said : fmt::format("{}: {}", clipped(path, kMaxMessage), said);
  if (entries_.size() >= kMaxFaults) {
    ++not_listed_;
    return;
  }
  if (!seen_.emplace(code, where, text).second) return;
  entries_.push_back({position, Issue{code, std::move(where), kNoTensor, std::move(text)}});
}

void Faults::add_option(ErrorCode code, std::string_view where, std::string message) {
  ++reports_;
  entries_.push_back({Position{}, Issue{code, std::string(where), kNoTensor, std::move(message)}});
}

void Faults::throw_if_any() const {
  if (entries_.empty()) return;
  std::vector<Entry> sorted = entries_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.position.line, a.position.column) < std::pair(b.position.line, b.position.column);
  });
  std::vector<Issue> issues;
  for (Entry& entry : sorted) issues.push_back(std::move(entry.issue));
  if (not_listed_ > 0) issues.back().message += fmt::format("; {} more faults are not listed", not_listed_);
  throw Error(Exit::kPlan, std::move(issues));
}

Node child(const Node& parent, std::size_t index) {
  const Value& item = parent->array()[index];
  return {&item, fmt::format("{}[{}]", parent.path, index), item.position.line > 0 ? item.position : parent.position};
}

Node child(const Node& parent, const Value::Member& member) {
  const std::string key = clipped(member.key, kQuoted);
  // The place of an empty YAML value is that of whatever follows it; its key says more.
  const bool own_place = member.value.position.line > 0 && !member.value.is_null();
  return {&member.value, parent.path.empty() ? key : fmt::format("{}.{}", parent.path, key),
          own_place ? member.value.position : member.position};
}

Fields::Fields(Node map, std::span<const std::string> legal, Faults& faults) : map_(std::move(map)) {
  if (!expect_map(map_, "a map", faults)) return;
  for (const Value::Member& member : map_->object()) {
    if (std::find(legal.begin(), legal.end(), member.key) != legal.end()) continue;
    if (std::find(kReserved.begin(), kReserved.end(), member.key) != kReserved.end()) {
      faults.add(ErrorCode::kUnsupported, member.position, map_.path,
                 fmt::format("the key '{}' is reserved for a later version", member.key));
    } else {
      faults.add(ErrorCode::kSchema, member.position, map_.path,
                 fmt::format("unknown key {}{}; legal keys: {}", quoted(member.key), suggestion(member.key, legal),
                             join(legal)));
    }
  }
}

std::optional<Node> Fields::find(std::string_view key) const {
  if (!map_->is_object()) return std::nullopt;
  for (const Value::Member& member : map_->object())
    if (member.key == key) return child(map_, member);
  return std::nullopt;
}

std::optional<Node> Fields::require(std::string_view key, Faults& faults) const {
  std::optional<Node> node = find(key);
  if (!node && is_map()) faults.add(ErrorCode::kSchema, map_, fmt::format("the key '{}' is missing", key));
  return node;
}

std::optional<std::int64_t> read_integer(const Node& node, std::int64_t least, Faults& faults, ErrorCode out_of_range) {
  const std::string expected = fmt::format("expected an integer of {} or more", least);
  if (!node->is_integer()) {
    const bool too_large = node->is_float() && node->floating().text.find_first_of(".eE") == std::string::npos;
    faults.add(ErrorCode::kSchema, node,
               too_large ? fmt::format("found {}, beyond 63 bits; {}", node->floating().text, expected)
                         : fmt::format("found {}, {}", describe(*node), expected));
    return std::nullopt;
  }
  if (node->integer() < least) {
    faults.add(out_of_range, node, fmt::format("found {}, {}", node->integer(), expected));
    return std::nullopt;
  }
  return node->integer();
}

std::optional<std::string> read_string(const Node& node, Faults& faults) {
  if (!node->is_string() || node->string().empty()) {
    faults.add(ErrorCode::kSchema, node,
               node->is_string() ? "found an empty string, expected some text"
                                 : fmt::format("found {}, expected a string", describe(*node)));
    return std::nullopt;
  }
  return node->string();
}

std::optional<bool> read_boolean(const Node& node, Faults& faults) {
  if (node->is_bool()) return node->boolean();
  faults.add(ErrorCode::kSchema, node, fmt::format("found {}, expected true or false", describe(*node)));
  return std::nullopt;
}

std::optional<std::size_t> read_choice(const Node& node, std::span<const std::string> choices, Faults& faults) {
  if (node->is_string()) {
    const auto at = std::find(choices.begin(), choices.end(), node->string());
    if (at != choices.end()) return static_cast<std::size_t>(at - choices.begin());
  }
  faults.add(ErrorCode::kSchema, node,
             fmt::format("found {}, expected one of {}{}", describe(*node), join(choices),
                         node->is_string() ? suggestion(node->string(), choices) : ""));
  return std::nullopt;
}

bool expect_map(const Node& node, std::string_view what, Faults& faults) {
  if (!node->is_object())
    faults.add(ErrorCode::kSchema, node, fmt::format("found {}, expected {}", describe(*node), what));
  return node->is_object();
}

bool expect_small_map(const Node& node, std::string_view what, Faults& faults) {
  if (!expect_map(node, what, faults)) return false;
  if (node->object().size() <= kMaxEntries) return true;
  faults.add(ErrorCode::kSchema, node,
             fmt::format("a map of {} entries, at most {} are read", node->object().size(), kMaxEntries));
  return false;
}

bool expect_list(const Node& node, std::string_view what, Faults& faults) {
  if (!node->is_array())
    faults.add(ErrorCode::kSchema, node, fmt::format("found {}, expected {}", describe(*node), what));
  return node->is_array();
}

}  // namespace reshard::plan
