#include "reshard/layout/sequence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string_view>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::layout {
namespace {

// cu_seqlens are int32 numbers wherever they are used; a sum beyond would wrap there.
constexpr Index kMaxPosition = std::numeric_limits<std::int32_t>::max();

const std::vector<Index>& physical(const PackedSequences& packed) {
  return packed.cu_seqlens_padded.empty() ? packed.cu_seqlens : packed.cu_seqlens_padded;
}

std::optional<Refusal> boundary_refusal(const std::vector<Index>& boundaries, std::string_view name) {
  if (boundaries.size() < 2)
    return Refusal{ErrorCode::kSeqLayout,
                   fmt::format("{} has {} entries, expected 2 or more", name, boundaries.size())};
  if (boundaries.front() != 0)
    return Refusal{ErrorCode::kSeqLayout, fmt::format("{} starts at {}, expected 0", name, boundaries.front())};
  for (std::size_t i = 1; i < boundaries.size(); ++i)
    if (boundaries[i] < boundaries[i - 1])
      return Refusal{ErrorCode::kSeqLayout,
                     fmt::format("{} decreases from {} to {} at entry {}", name, boundaries[i - 1], boundaries[i], i)};
  if (boundaries.back() > kMaxPosition)
    return Refusal{ErrorCode::kOverflow, fmt::format("{} ends at {}, beyond the int32 positions of packed sequences",
                                                     name, boundaries.back())};
  return std::nullopt;
}

}  // namespace

Line take_zigzag(const Line& line, Index n, Index c) {
  const Index width = line.length() / (2 * n);
  const Index back = 2 * n - 1 - c;
  Line out;
  out.append(line, c * width, (c + 1) * width);
  out.append(line, back * width, (back + 1) * width);
  return out;
}

Line take_striped(const Line& line, Index n, Index block, Index c) {
  Line out;
  // Written so that no position is computed beyond the line: c * block is below its length, or the line is empty.
  const Index rounds = line.length() / block / n;
  for (Index round = 0; round < rounds; ++round) {
    const Index begin = (round * n + c) * block;
    out.append(line, begin, begin + block);
  }
  return out;
}

std::optional<Refusal> packed_refusal(const PackedSequences& packed, Index length) {
  if (packed.cu_seqlens.empty() && !packed.cu_seqlens_tensor.empty())
    internal_error("cu_seqlens of tensor '" + packed.cu_seqlens_tensor + "' were not filled in before cutting");
  if (auto refusal = boundary_refusal(packed.cu_seqlens, "cu_seqlens")) return refusal;
  if (!packed.cu_seqlens_padded.empty()) {
    if (packed.cu_seqlens_padded.size() != packed.cu_seqlens.size())
      return Refusal{ErrorCode::kSeqLayout, fmt::format("cu_seqlens_padded has {} entries, cu_seqlens has {}",
                                                        packed.cu_seqlens_padded.size(), packed.cu_seqlens.size())};
    if (auto refusal = boundary_refusal(packed.cu_seqlens_padded, "cu_seqlens_padded")) return refusal;
    for (std::size_t i = 1; i < packed.cu_seqlens.size(); ++i) {
      const Index actual = packed.cu_seqlens[i] - packed.cu_seqlens[i - 1];
      const Index padded = packed.cu_seqlens_padded[i] - packed.cu_seqlens_padded[i - 1];
      if (padded < actual)
        return Refusal{
            ErrorCode::kSeqLayout,
            fmt::format("sequence {} has {} elements, but cu_seqlens_padded gives it only {}", i - 1, actual, padded)};
    }
  }
  const Index total = physical(packed).back();
  if (total == 0) return Refusal{ErrorCode::kSeqLayout, "cu_seqlens hold no element at all"};
  if (total != length)
    return Refusal{ErrorCode::kSeqLayout,
                   fmt::format("{} ends at {}, but the sequence dim has length {}",
                               packed.cu_seqlens_padded.empty() ? "cu_seqlens" : "cu_seqlens_padded", total, length)};
  return std::nullopt;
}

std::vector<Index> padded_lengths(const PackedSequences& packed, Index n, Index inner_multiple) {
  const std::vector<Index>& boundaries = physical(packed);
  const Index align = checked_mul(2, n);
  std::vector<Index> out;
  out.reserve(boundaries.size() - 1);
  Index total = 0;
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    const Index length = boundaries[i] - boundaries[i - 1];
    out.push_back(checked_mul(ceil_div(length, align), align));
    total = checked_add(total, out.back());
  }
  // Chunks must stay whole, so a stream grows by an even number: Megatron's rule for even sizes, and a working one for
  // odd.
  const Index step = checked_mul(inner_multiple, 2) / std::gcd(inner_multiple, Index{2});
  const Index stream = total / n;
  const Index grow = (step - stream % step) % step;
  out.back() = checked_add(out.back(), checked_mul(grow, n));
  return out;
}

std::optional<Refusal> packed_zigzag_refusal(const PackedSequences& packed, PackedPadding padding, Index n,
                                             Index inner_multiple) {
  const std::vector<Index>& boundaries = physical(packed);
  const std::vector<Index> padded = padded_lengths(packed, n, inner_multiple);
  Index total = 0;
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const Index length = boundaries[i + 1] - boundaries[i];
    if (padding == PackedPadding::kForbid && padded[i] != length) {
      if (length % (2 * n) != 0)
        return Refusal{
            ErrorCode::kSeqLayout,
            fmt::format("sequence {} has {} elements, not a multiple of 2 x {} = {}, and padding is forbidden; "
                        "padding: temporary allows it",
                        i, length, n, 2 * n)};
      return Refusal{ErrorCode::kSeqLayout,
                     fmt::format("each coordinate's {} elements are not a multiple of the {} that the axes behind it "
                                 "need, and padding is forbidden; padding: temporary allows it",
                                 boundaries.back() / n, inner_multiple)};
    }
    total = checked_add(total, padded[i]);
  }
  if (total > kMaxPosition)
    return Refusal{
        ErrorCode::kOverflow,
        fmt::format("the padded sequences end at {}, beyond the int32 positions of packed sequences", total)};
  return std::nullopt;
}

Line take_packed_zigzag(const Line& line, const PackedSequences& packed, Index n, Index inner_multiple, Index c) {
  const std::vector<Index>& boundaries = physical(packed);
  const std::vector<Index> padded = padded_lengths(packed, n, inner_multiple);
  Line out;
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const Index width = padded[i] / (2 * n);
    for (const Index chunk : {c, 2 * n - 1 - c}) {
      const Index begin = std::min(boundaries[i] + chunk * width, boundaries[i + 1]);
      const Index end = std::min(boundaries[i] + (chunk + 1) * width, boundaries[i + 1]);
      out.append(line, begin, end);
      out.append(Pad{0, width - (end - begin), std::nullopt, true});
    }
  }
  return out;
}

}  // namespace reshard::layout
