#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
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

// A number that the dtype holds exactly and that is no subnormal.
std::uint64_t float_bits(Dtype dtype, double value) {
  if (dtype == Dtype::kF64) return std::bit_cast<std::uint64_t>(value);
  const auto single = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == Dtype::kF32) return single;
  if (dtype == Dtype::kBf16) return single >> 16;
  if (value == 0) return 0;
  // f16 has 5 bits of exponent, counted from 15 and not from 127, and 10 of mantissa, not 23.
  const std::uint32_t exponent = (single >> 23 & 0xff) - 127 + 15;
  return (single >> 31 << 15) | (exponent << 10) | (single >> 13 & 0x3ff);
}

}  // namespace

Index SideSpec::world() const {
  Index out = 1;
  for (const layout::Axis& axis : axes) out *= axis.size;
  return out;
}

Index SideSpec::rank_at(Index position) const {
  return ranks.empty() ? position : ranks[static_cast<std::size_t>(position)];
}

std::string SideSpec::file(Index rank) const {
  const std::string ending = format == "hdf5" ? ".h5" : ".safetensors";
  if (files.empty()) return world() == 1 ? "model" + ending : fmt::format("rank-{:05}{}", rank, ending);
  if (fields.empty()) return fmt::format("{}{:03}.{}", files, rank, format);
  Index position = 0;
  while (rank_at(position) != rank) ++position;
  std::string out = files;
  for (const std::string& field : fields) {
    Index step = 1;
    for (auto axis = axes.rbegin(); axis->name != field; ++axis) step *= axis->size;
    for (const layout::Axis& axis : axes)
      if (axis.name == field) out += fmt::format("{:02}-", position / step % axis.size);
  }
  return out + "." + format;
}

std::string SideSpec::file_template() const {
  if (files.empty()) return "";
  if (fields.empty()) return fmt::format("{}{{rank:03}}.{}", files, format);
  std::string out = files;
  for (const std::string& field : fields) out += fmt::format("{{{}:02}}-", field);
  return out + "." + format;
}

std::vector<std::byte> Tensor::element(std::size_t side, std::uint64_t index) const {
  const Dtype dtype = sides[side].dtype;
  std::uint64_t seed = 0;
  for (const char c : names[0]) seed = mixed(seed + static_cast<unsigned char>(c) + 0x9e3779b97f4a7c15ULL);
  std::uint64_t bits = mixed(seed + index + 1);
  // 8 bits times a power of two: a number that f16 and bf16 hold.
  if (converted)
    bits = float_bits(dtype, std::ldexp(static_cast<double>(bits % 257) - 128, static_cast<int>(bits >> 32 & 7) - 4));
  if (!numbers.empty()) bits = static_cast<std::uint64_t>(numbers[static_cast<std::size_t>(index)]);
  std::vector<std::byte> out(static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(bits >> (8 * (i % 8)));
  return out;
}

std::vector<std::byte> Tensor::logical(std::size_t side) const {
  const Index elements = std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
  std::vector<std::byte> out;
  for (Index i = 0; i < elements; ++i) {
    const std::vector<std::byte> one = element(side, static_cast<std::uint64_t>(i));
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
    std::vector<std::byte> one(static_cast<std::size_t>(size_bytes(sides[side].dtype)), std::byte{0});
    if (garbage && padding) {
      std::fill(one.begin(), one.end(), static_cast<std::byte>(mixed(position + 77)));
    } else if (!zero && constant == nullptr) {
      one = element(side, index);
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
