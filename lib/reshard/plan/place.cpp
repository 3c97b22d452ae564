#include "reshard/plan/place.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "reshard/base/error.hpp"

namespace reshard::plan {
namespace {

using layout::Index;
using layout::Level;
using layout::Split;

constexpr std::string_view kForms = "expected replicate, shard(d), shard(d, chunk) or strided_shard(d, k)";

struct Placed {
  std::string dim;  ///< empty: replicate
  Level level;
};

const RE2& pattern() {
  static const RE2 expression(
      R"((shard|strided_shard)\( *(-?[0-9]+|[A-Za-z_][A-Za-z0-9_]*) *(?:, *([A-Za-z0-9_-]+) *)?\))");
  return expression;
}

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

/// Why a text is no placement, beyond the legal forms.
std::string hint(const std::string& text) {
  if (text.find('(') != std::string::npos && text.find(')') == std::string::npos)
    return "; in YAML flow style quote a placement with a comma: \"strided_shard(0, 4)\"";
  if (lower(text) != text && lower(text).find("shard") != std::string::npos)
    return fmt::format("; write '{}'", lower(text));
  return "";
}

std::optional<Placed> read_placement(const Node& node, Faults& faults) {
  const auto refuse = [&](std::string_view found, const std::string& more) {
    faults.add(ErrorCode::kSchema, node, fmt::format("found {}, {}{}", found, kForms, more));
    return std::nullopt;
  };
  if (!node->is_string()) return refuse(describe(*node), "");
  const std::string& text = node->string();
  const std::string plain = lower(text);
  if (plain.starts_with("partial") || plain.starts_with("_partial")) {
    faults.add(ErrorCode::kPartial, node,
               fmt::format("'{}': partial sums are not stored values; reduce them before saving", text));
    return std::nullopt;
  }
  if (text == "replicate") return Placed{};
  std::string kind;
  std::string argument;
  Placed placed;
  if (!RE2::FullMatch(text, pattern(), &kind, &placed.dim, &argument)) return refuse(describe(*node), hint(text));
  if (kind == "shard") {
    if (argument == "chunk") placed.level.split = Split::kChunk;
    if (!argument.empty() && argument != "chunk") return refuse(describe(*node), "");
    return placed;
  }
  Index factor = 0;
  const auto [end, fault] = std::from_chars(argument.data(), argument.data() + argument.size(), factor);
  if (fault != std::errc() || end != argument.data() + argument.size())
    return refuse(describe(*node), "; k is the number of segments (PyTorch's split_factor)");
  if (factor < 1) {
    faults.add(ErrorCode::kStride, node, fmt::format("'{}': found k = {}, expected 1 or more", text, factor));
    return std::nullopt;
  }
  placed.level.stride = factor;
  return placed;
}

}  // namespace

std::vector<DimRule> read_place(const Node& node, const AxisScope& scope, Faults& faults) {
  std::vector<DimRule> rules;
  if (!expect_small_map(node, "a map of axes to placements, as in {tp: \"shard(0)\"}", faults)) return rules;
  std::vector<Placed> placed;
  for (const Value::Member& member : node->object()) {
    const Node at = child(node, member);
    std::optional<Placed> placement = read_placement(at, faults);
    // In YAML flow style an unquoted comma ends a placement and makes a key without value of the rest: one fault is
    // enough.
    if (!placement && member.value.is_null()) continue;
    const Index size = scope.size_of(member.key, Node{at.value, at.path, member.position}, faults);
    if (!placement || placement->dim.empty()) continue;
    placement->level.axis = member.key;
    placement->level.axis_size = size;
    placement->level.fallback = scope.fallback;
    placed.push_back(std::move(*placement));
  }
  std::stable_sort(placed.begin(), placed.end(), [&](const Placed& a, const Placed& b) {
    return scope.here->axis_position(a.level.axis) < scope.here->axis_position(b.level.axis);
  });
  for (Placed& placement : placed) {
    auto rule =
        std::find_if(rules.begin(), rules.end(), [&](const DimRule& known) { return known.dim == placement.dim; });
    if (rule == rules.end()) rule = rules.insert(rules.end(), DimRule{placement.dim, {}, true});
    rule->cut.levels.push_back(std::move(placement.level));
  }
  return rules;
}

}  // namespace reshard::plan
