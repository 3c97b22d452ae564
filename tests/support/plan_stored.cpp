#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "support/plan_cases.hpp"

namespace reshard::plan_cases {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

Index SideSpec::world() const {
  Index out = 1;
  for (const layout::Axis& axis : axes) out *= axis.size;
  return out;
}

std::string SideSpec::file(Index rank) const {
  const std::string ending = format == "hdf5" ? ".h5" : ".safetensors";
  if (!files.empty()) return fmt::format("{}{:03}.{}", files, rank, format);
  return world() == 1 ? "model" + ending : fmt::format("rank-{:05}{}", rank, ending);
}

std::vector<std::byte> Tensor::element(std::uint64_t index) const {
  std::uint64_t seed = 0;
  for (const char c : names[0]) seed = mixed(seed + static_cast<unsigned char>(c) + 0x9e3779b97f4a7c15ULL);
  const std::uint64_t bits = mixed(seed + index + 1);
  std::vector<std::byte> out(static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(bits >> (8 * i));
  return out;
}

std::vector<std::byte> Tensor::logical() const {
  const Index elements = std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
  std::vector<std::byte> out;
  for (Index i = 0; i < elements; ++i) {
    const std::vector<std::byte> one = element(static_cast<std::uint64_t>(i));
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

Shape Tensor::stored_shape(std::size_t side, Index rank) const {
  Shape out;
  for (const auto& dim : sides[side].lines)
    out.push_back(static_cast<Index>(dim[static_cast<std::size_t>(rank)].size()));
  return out;
}

std::vector<std::byte> Tensor::stored(std::size_t side, Index rank, bool garbage) const {
  const Shape extents = stored_shape(side, rank);
  std::vector<std::byte> out;
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return out;
  std::vector<std::size_t> at(extents.size(), 0);
  std::uint64_t position = 0;
  for (bool more = true; more; ++position) {
    // Where dims meet: padding with zeros before `pad_value` of the outermost dim before a repeated row.
    std::uint64_t index = 0;
    bool zero = false;
    bool padding = false;
    const std::vector<std::byte>* constant = nullptr;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const naive::Cell& cell = sides[side].lines[d][static_cast<std::size_t>(rank)][at[d]];
      const Index from = cell.global == naive::kPadding ? cell.copy_of : cell.global;
      padding = padding || cell.global == naive::kPadding;
      if (cell.temporary && constant == nullptr) constant = &sides[side].pad_values[d];
      zero = zero || (from == naive::kPadding && !cell.temporary);
      index = index * static_cast<std::uint64_t>(shape[d]) + static_cast<std::uint64_t>(std::max(from, Index{0}));
    }
    std::vector<std::byte> one(static_cast<std::size_t>(size_bytes(dtype)), std::byte{0});
    if (garbage && padding) {
      std::fill(one.begin(), one.end(), static_cast<std::byte>(mixed(position + 77)));
    } else if (!zero && constant == nullptr) {
      one = element(index);
    } else if (!zero && !constant->empty()) {
      one = *constant;
    }
    out.insert(out.end(), one.begin(), one.end());
    more = false;
    for (std::size_t d = at.size(); d-- > 0 && !more;) {
      more = ++at[d] < static_cast<std::size_t>(extents[d]);
      if (!more) at[d] = 0;
    }
  }
  return out;
}

}  // namespace reshard::plan_cases
