#include "reshard/planner/binding_owners.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "reshard/base/checked.hpp"

namespace reshard::planner {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw Error(Issue{ErrorCode::kOwner, "", "", std::move(message)});
}

/// An axis of size 1 owns every number, whatever the shares of the other side's stages.
bool has_shares(const plan::OwnerRule& owner) {
  return owner.axis_size > 1 && !owner.split.empty();
}

void check_shares(const plan::OwnerRule& owner) {
  if (has_shares(owner)) {
    if (static_cast<Index>(owner.split.size()) != owner.axis_size)
      refuse(fmt::format("'split' has {} shares, axis '{}' has size {}: one share per coordinate is needed",
                         owner.split.size(), owner.axis, owner.axis_size));
  } else if (owner.axis_size > 1 && owner.count % owner.axis_size != 0) {
    refuse(
        fmt::format("{} numbers over axis '{}' of size {}: the count must be a multiple of the size; for uneven stages "
                    "say `split` with {} shares",
                    owner.count, owner.axis, owner.axis_size, owner.axis_size));
  }
}

}  // namespace

Index number_count(const plan::OwnerRule& owner) {
  return owner.split.empty() ? owner.count : std::accumulate(owner.split.begin(), owner.split.end(), Index{0});
}

Index numbers_on(const plan::OwnerRule& owner, Index coordinate) {
  check_shares(owner);
  return has_shares(owner) ? owner.split[static_cast<std::size_t>(coordinate)] : number_count(owner) / owner.axis_size;
}

Index first_number_on(const plan::OwnerRule& owner, Index coordinate) {
  check_shares(owner);
  if (has_shares(owner)) return std::accumulate(owner.split.begin(), owner.split.begin() + coordinate, Index{0});
  return checked_mul(number_count(owner) / owner.axis_size, coordinate);
}

Index captured_number(const plan::OwnerRule& owner, const std::vector<std::string>& captures) {
  const std::string& text = captures[*owner.capture - 1];
  Index number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text[0] == '-' || error != std::errc() || end != text.data() + text.size())
    refuse(fmt::format("${} is '{}', owner of axis '{}' needs a number", *owner.capture, text, owner.axis));
  return number;
}

BoundOwner owner_coordinates(const plan::OwnerRule& owner, const std::vector<std::string>& captures) {
  check_shares(owner);
  std::vector<Index> numbers = owner.indices;
  if (owner.capture) numbers = {captured_number(owner, captures)};
  BoundOwner out{owner.axis, {}, owner.axis_size};
  for (const Index number : numbers) {
    if (number < 0 || number >= number_count(owner))
      refuse(fmt::format("number {} on axis '{}', expected 0 to {} ({} numbers)", number, owner.axis,
                         number_count(owner) - 1, number_count(owner)));
    Index coordinate = 0;
    while (coordinate + 1 < owner.axis_size &&
           number >= first_number_on(owner, coordinate) + numbers_on(owner, coordinate))
      ++coordinate;
    out.indices.push_back(coordinate);
  }
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
