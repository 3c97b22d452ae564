#include "reshard/planner/binding_owners.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace reshard::planner {
layout::Ownership ownership(const plan::OwnerRule& owner) {
  return layout::Ownership(owner.axis, owner.axis_size, owner.count, owner.split);
}

Index captured_number(const plan::OwnerRule& owner, const std::vector<std::string>& captures) {
  const std::string& text = captures[*owner.capture - 1];
  Index number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text[0] == '-' || error != std::errc() || end != text.data() + text.size())
    throw Error(Issue{ErrorCode::kOwner, "", kNoTensor,
                      fmt::format("${} is '{}', owner of axis '{}' needs a number", *owner.capture, text, owner.axis)});
  return number;
}

BoundOwner owner_coordinates(const plan::OwnerRule& owner, const std::vector<std::string>& captures) {
  std::vector<Index> numbers = owner.indices;
  if (owner.capture) numbers = {captured_number(owner, captures)};
  const layout::Ownership numbered = ownership(owner);
  BoundOwner out{owner.axis, {}, owner.axis_size};
  for (const Index number : numbers) out.indices.push_back(numbered.locate(number).coordinate);
  std::sort(out.indices.begin(), out.indices.end());
  out.indices.erase(std::unique(out.indices.begin(), out.indices.end()), out.indices.end());
  return out;
}

const std::vector<Index>& Presence::coordinates(const std::string& view, const std::string& axis) {
  const auto [found, is_new] = coordinates_.try_emplace({view, axis});
  if (is_new) {
    const layout::Mesh& mesh = side_->mesh_of(view);
    for (Index rank = 0; rank < mesh.size(); ++rank) found->second.push_back(mesh.coordinate(rank, axis));
  }
  return found->second;
}

const std::vector<bool>& Presence::ranks(const std::string& view, const std::vector<BoundOwner>& owners) {
  std::vector<std::pair<std::string, std::vector<Index>>> key;
  for (const BoundOwner& owner : owners) key.emplace_back(owner.axis, owner.indices);
  const auto [found, is_new] = ranks_.try_emplace({view, std::move(key)});
  if (!is_new) return found->second;
  std::vector<bool> present(static_cast<std::size_t>(side_->mesh_of(view).size()), true);
  for (const BoundOwner& owner : owners) {
    const std::vector<Index>& of_rank = coordinates(view, owner.axis);
    for (std::size_t rank = 0; rank < present.size(); ++rank)
      if (!std::binary_search(owner.indices.begin(), owner.indices.end(), of_rank[rank])) present[rank] = false;
  }
  if (std::find(present.begin(), present.end(), false) != present.end()) found->second = std::move(present);
  return found->second;
}

}  // namespace reshard::planner
