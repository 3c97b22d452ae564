#include "reshard/plan/members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "reshard/plan/expression.hpp"

namespace reshard::plan {
namespace {

using layout::Index;

constexpr std::string_view kTokens =
    "a token is a dim name, name/k (stored size = dim / k, rounded up) or '.' (never cut)";

constexpr std::size_t kMaxDims = 64;

std::optional<MemberDim> read_token(std::string_view token) {
  if (token == ".") return MemberDim{};
  const std::size_t slash = std::min(token.find('/'), token.size());
  MemberDim dim;
  dim.name = token.substr(0, slash);
  if (!is_variable_name(dim.name)) return std::nullopt;
  if (slash == token.size()) return dim;
  const std::string_view divisor = token.substr(slash + 1);
  const auto [end, fault] = std::from_chars(divisor.data(), divisor.data() + divisor.size(), dim.divisor);
  const bool whole = fault == std::errc() && end == divisor.data() + divisor.size();
  if (!whole || dim.divisor < 1 || divisor.front() == '0') return std::nullopt;
  return dim;
}

std::vector<MemberDim> read_dims(const Node& node, Faults& faults) {
  std::vector<MemberDim> dims;
  if (!node->is_string()) {
    faults.add(ErrorCode::kSchema, node,
               fmt::format("found {}, expected dims as in \"out in/128\"; {}", describe(*node), kTokens));
    return dims;
  }
  const std::string_view text = node->string();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view token = text.substr(begin, end - begin);
    begin = end + 1;
    if (token.empty()) continue;
    if (dims.size() == kMaxDims) {
      faults.add(ErrorCode::kSchema, node, fmt::format("more than {} dims", kMaxDims));
      return dims;
    }
    const std::optional<MemberDim> dim = read_token(token);
    if (!dim) {
      faults.add(ErrorCode::kSchema, node, fmt::format("'{}' in '{}': {}", token, text, kTokens));
      return dims;
    } else if (!dim->name.empty() &&
               std::any_of(dims.begin(), dims.end(), [&](const MemberDim& known) { return known.name == dim->name; })) {
      faults.add(ErrorCode::kSchema, node, fmt::format("dim '{}' stands twice in '{}'", dim->name, text));
      return dims;
    } else {
      dims.push_back(*dim);
    }
  }
  return dims;
}

}  // namespace

std::vector<Member> read_members(const Node& node, Faults& faults) {
  const std::size_t reports_before = faults.reports();
  std::vector<Member> members;
  if (!expect_small_map(node, "a map of suffixes to dims, as in {weight: out in, \"bias?\": out}", faults))
    return members;
  if (node->object().empty()) faults.add(ErrorCode::kSchema, node, "an empty map, expected the members of the group");
  for (const Value::Member& entry : node->object()) {
    const Node at = child(node, entry);
    Member member;
    member.suffix = entry.key;
    member.may_be_absent = member.suffix.ends_with('?');
    if (member.may_be_absent) member.suffix.pop_back();
    if (member.suffix.empty())
      faults.add(ErrorCode::kSchema, at, "the suffix is empty; a tensor's name is prefix + '.' + suffix");
    if (std::any_of(members.begin(), members.end(), [&](const Member& known) { return known.suffix == member.suffix; }))
      faults.add(ErrorCode::kSchema, at,
                 fmt::format("the suffix '{}' stands twice, with and without '?'", member.suffix));
    member.dims = read_dims(at, faults);
    members.push_back(std::move(member));
  }
  if (faults.reports() > reports_before) members.clear();
  return members;
}

std::vector<std::string> dim_names(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (const Member& member : members)
    for (const MemberDim& dim : member.dims)
      if (!dim.name.empty() && std::find(names.begin(), names.end(), dim.name) == names.end())
        names.push_back(dim.name);
  return names;
}

}  // namespace reshard::plan
