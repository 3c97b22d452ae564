#include "reshard/plan/packed.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace reshard::plan {
namespace {

using layout::Index;

const std::vector<std::string> kKeys = {"cu_seqlens", "cu_seqlens_padded"};
const std::vector<std::string> kPaddings = {"temporary", "forbid"};

/// A list into `numbers` or a tensor's name into `tensor`.
void read_boundaries(const Node& node, std::vector<Index>& numbers, std::string& tensor, Faults& faults) {
  if (node->is_string()) {
    tensor = read_string(node, faults).value_or("");
    return;
  }
  if (!expect_list(node, "a list of integers or the name of a tensor", faults)) return;
  const std::size_t reports_before = faults.reports();
  for (std::size_t i = 0; i < node->array().size(); ++i) {
    const Node at = child(node, i);
    const auto number = read_integer(at, 0, faults, ErrorCode::kSeqLayout);
    if (number && !numbers.empty() && *number < numbers.back())
      faults.add(ErrorCode::kSeqLayout, at,
                 fmt::format("{} after {}: cumulative lengths do not decrease", *number, numbers.back()));
    numbers.push_back(number.value_or(numbers.empty() ? 0 : numbers.back()));
  }
  if (faults.reports() > reports_before) return;
  if (numbers.size() < 2)
    faults.add(ErrorCode::kSeqLayout, node,
               fmt::format("{} entries, expected 0 and then the end of every sequence", numbers.size()));
  else if (numbers.front() != 0)
    faults.add(ErrorCode::kSeqLayout, node, fmt::format("starts at {}, expected 0", numbers.front()));
}

void check_padded(const Node& node, const layout::PackedSequences& packed, Faults& faults) {
  const std::vector<Index>& actual = packed.cu_seqlens;
  const std::vector<Index>& padded = packed.cu_seqlens_padded;
  if (actual.empty() || padded.empty()) return;
  if (actual.size() != padded.size()) {
    faults.add(ErrorCode::kSeqLayout, node,
               fmt::format("{} entries, 'cu_seqlens' has {}; expected as many", padded.size(), actual.size()));
    return;
  }
  for (std::size_t i = 1; i < actual.size(); ++i) {
    const Index length = actual[i] - actual[i - 1];
    const Index room = padded[i] - padded[i - 1];
    if (room < length)
      faults.add(ErrorCode::kSeqLayout, node,
                 fmt::format("sequence {} has {} elements and is padded to {}; expected {} or more", i - 1, length,
                             room, length));
  }
}

}  // namespace

std::optional<layout::PackedSequences> read_packed(const Node& node, Faults& faults) {
  const Fields fields(node, kKeys, faults);
  if (!fields.is_map()) return std::nullopt;
  const std::size_t reports_before = faults.reports();
  layout::PackedSequences packed;
  if (const auto actual = fields.require("cu_seqlens", faults))
    read_boundaries(*actual, packed.cu_seqlens, packed.cu_seqlens_tensor, faults);
  if (const auto padded = fields.find("cu_seqlens_padded")) {
    read_boundaries(*padded, packed.cu_seqlens_padded, packed.cu_seqlens_padded_tensor, faults);
    if (faults.reports() == reports_before) check_padded(*padded, packed, faults);
  }
  return packed;
}

std::optional<layout::PackedPadding> read_packed_padding(const Node& node, Faults& faults) {
  const auto choice = read_choice(node, kPaddings, faults);
  return choice ? std::optional(static_cast<layout::PackedPadding>(*choice)) : std::nullopt;
}

}  // namespace reshard::plan
