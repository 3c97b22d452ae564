#include "reshard/plan/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reshard/base/error.hpp"
#include "reshard/plan/dim.hpp"
#include "reshard/plan/expression.hpp"

namespace reshard::plan {
namespace {

Node part(const Node& rule, std::string_view key, const Value& value) {
  return {&value, rule.path.empty() ? std::string(key) : fmt::format("{}.{}", rule.path, key),
          value.position.line > 0 ? value.position : rule.position};
}

/// An integer as JSON writes it: no sign but '-', no leading zero.
bool is_dim_number(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  const bool padded = digits.size() > 1 && digits.front() == '0';
  return number && !padded && text != "-0";
}

class PlacementReader {
 public:
  PlacementReader(const SideWords& words, const Node& rule, const PlacementScope& scope, Faults& faults)
      : words_(words), rule_(rule), scope_(scope), faults_(faults) {}

  Placement run() {
    placement_.view = read_view(words_, rule_, scope_, faults_);
    axes_ = AxisScope{&scope_.here->mesh_of(placement_.view),
                      &scope_.other->mesh_of(scope_.other_view),
                      scope_.side,
                      placement_.view,
                      scope_.here->all_axes_read && scope_.other->all_axes_read,
                      scope_.fallback};
    if (words_.members) placement_.members = read_members(part(rule_, "members", *words_.members), faults_);
    names_ = dim_names(placement_.members);
    if (words_.shard) read_shard(part(rule_, "shard", *words_.shard));
    if (words_.place) read_places(part(rule_, "place", *words_.place));
    if (words_.owner) {
      const Node owner = part(rule_, "owner", *words_.owner);
      placement_.owners = read_owners(owner, axes_, scope_.captures, faults_);
      for (std::size_t i = 0; i < placement_.owners.size(); ++i)
        use_axis(placement_.owners[i].axis, "says which ranks have the tensor", child(owner, owner->object()[i]));
    }
    return std::move(placement_);
  }

 private:
  void read_shard(const Node& node) {
    if (!expect_small_map(node, "a map of dims to axes, as in {0: tp}", faults_)) return;
    for (const Value::Member& member : node->object()) {
      const Node at = child(node, member);
      check_dim(member.key, Node{at.value, at.path, member.position});
      DimRule rule{member.key, read_dim(at, axes_, faults_), false};
      for (const layout::Level& level : rule.cut.levels) use_axis(level.axis, fmt::format("cuts dim {}", rule.dim), at);
      placement_.shard.push_back(std::move(rule));
    }
  }

  void read_places(const Node& node) {
    placement_.shard = read_place(node, axes_, faults_);
    for (const DimRule& rule : placement_.shard) {
      check_dim(rule.dim, node);
      for (const layout::Level& level : rule.cut.levels)
        use_axis(level.axis, fmt::format("cuts dim {}", rule.dim), node);
    }
  }

  void check_dim(const std::string& dim, const Node& at) {
    if (words_.members) {
      if (std::find(names_.begin(), names_.end(), dim) == names_.end())
        faults_.add(ErrorCode::kDimRange, at,
                    names_.empty() ? fmt::format("no member has a dim '{}': none has a dim with a name", dim)
                                   : fmt::format("no member has a dim '{}'{}; dims: {}", dim, suggestion(dim, names_),
                                                 join(names_)));
    } else if (is_variable_name(dim)) {
      faults_.add(ErrorCode::kDimRange, at,
                  fmt::format("'{}' is no dim: dims are integers (0, 1, -1); names need 'members'", dim));
    } else if (!is_dim_number(dim)) {
      faults_.add(ErrorCode::kSchema, at, fmt::format("'{}' is no dim; expected an integer (0, 1, -1)", dim));
    } else if (dim.size() > 6) {
      faults_.add(ErrorCode::kDimRange, at, fmt::format("no tensor has a dim {}", dim));
    }
  }

  void use_axis(const std::string& axis, const std::string& use, const Node& at) {
    const auto [known, added] = uses_.emplace(axis, use);
    if (!added)
      faults_.add(ErrorCode::kAxisReused, at,
                  known->second == use
                      ? fmt::format("axis '{}' {} twice", axis, use)
                      : fmt::format("axis '{}' {} and {}; it can do one of them", axis, known->second, use));
  }

  const SideWords& words_;
  const Node& rule_;
  const PlacementScope& scope_;
  Faults& faults_;
  AxisScope axes_;
  Placement placement_;
  std::vector<std::string> names_;  ///< of the members' dims
  std::map<std::string, std::string> uses_;
};

}  // namespace

std::string read_view(const SideWords& words, const Node& rule, const PlacementScope& scope, Faults& faults) {
  if (!words.view) return "";
  const Node node = part(rule, "view", *words.view);
  const auto name = read_string(node, faults);
  if (!name) return "";
  if (scope.here->has_view(*name) || scope.other->has_view(*name)) return *name;
  if (!scope.here->all_axes_read || !scope.other->all_axes_read) return "";
  std::vector<std::string> known;
  for (const Side* side : {scope.here, scope.other})
    for (const View& view : side->views)
      if (std::find(known.begin(), known.end(), view.name) == known.end()) known.push_back(view.name);
  std::sort(known.begin(), known.end());
  faults.add(ErrorCode::kSchema, node,
             fmt::format("no side defines the view '{}'{}; {}", *name, suggestion(*name, known),
                         known.empty() ? "neither side has 'views'" : fmt::format("views: {}", join(known))));
  return "";
}

Placement read_placement(const SideWords& words, const Node& rule, const PlacementScope& scope, Faults& faults) {
  return PlacementReader(words, rule, scope, faults).run();
}

Placement read_placement(const Value& value, const Side& side, std::string_view source) {
  static const std::vector<std::string> keys = {"view", "shard", "owner"};
  Faults faults(source);
  const Node node{&value, "", value.position};
  const Fields fields(node, keys, faults);
  SideWords words;
  for (const auto& [key, word] :
       {std::pair("view", &words.view), std::pair("shard", &words.shard), std::pair("owner", &words.owner)})
    if (const auto given = fields.find(key); given && !(*given)->is_null()) *word = **given;
  const Side nothing;
  const PlacementScope scope{&side, &nothing, "manifest", "", 0, layout::Fallback::kError};
  Placement placement = read_placement(words, node, scope, faults);
  faults.throw_if_any();
  return placement;
}

}  // namespace reshard::plan
