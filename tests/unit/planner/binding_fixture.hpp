#pragma once
// Small catalogs and plans in, text out: what a binding test arranges and asserts.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"

template <>
struct doctest::StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += "\n  " + text;
    return out.c_str();
  }
};

namespace reshard::planner::test {

/// Every rank of a catalog of `ranks` stores the same.
inline SourceTensor everywhere(std::string name, Index ranks, Shape shape, Dtype dtype = Dtype::kF32) {
  return {std::move(name), {{0, ranks - 1, std::move(shape), dtype, std::nullopt}}, nullptr};
}

/// One shape per rank, from rank 0 on; nothing where a rank does not store the tensor.
inline SourceTensor by_rank(std::string name, const std::vector<std::optional<Shape>>& shapes,
                            Dtype dtype = Dtype::kF32) {
  SourceTensor out{std::move(name), {}, nullptr};
  for (std::size_t rank = 0; rank < shapes.size(); ++rank) {
    if (!shapes[rank]) continue;
    const auto number = static_cast<Index>(rank);
    const bool grows =
        !out.stored.empty() && out.stored.back().last_rank == number - 1 && out.stored.back().shape == *shapes[rank];
    if (grows) {
      out.stored.back().last_rank = number;
    } else {
      out.stored.push_back({number, number, *shapes[rank], dtype, std::nullopt});
    }
  }
  return out;
}

inline SourceCatalog catalog(Index ranks, std::vector<SourceTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  return {ranks, std::move(tensors)};
}

inline std::vector<Index> no_numbers(const SourceTensor&) {
  return {};
}

inline BoundPlan bound(std::string_view yaml, const SourceCatalog& source, const TensorNumbers& numbers = no_numbers) {
  return planner::bind(plan::read_plan(yaml, plan::Notation::kYaml, "p.yaml"), source, numbers);
}

/// The lines of the refusal; "accepted" where there is none.
inline std::vector<std::string> refusal(std::string_view yaml, const SourceCatalog& source,
                                        const TensorNumbers& numbers = no_numbers) {
  try {
    bound(yaml, source, numbers);
  } catch (const Error& error) {
    std::vector<std::string> out;
    if (error.exit() != Exit::kCheckpoint) out.push_back(fmt::format("exit {}", static_cast<int>(error.exit())));
    for (const Issue& issue : error.issues()) out.push_back(to_line(issue));
    return out;
  }
  return {"accepted"};
}

/// Codes and tensors of the refusal: "E_SHAPE w".
inline std::vector<std::string> codes(std::string_view yaml, const SourceCatalog& source,
                                      const TensorNumbers& numbers = no_numbers) {
  try {
    bound(yaml, source, numbers);
  } catch (const Error& error) {
    std::vector<std::string> out;
    for (const Issue& issue : error.issues())
      out.push_back(std::string(code_name(issue.code)) + " " + issue.tensor.value_or(""));
    return out;
  }
  return {"accepted"};
}

inline const BoundTensor& tensor(const BoundPlan& plan, std::string_view target_name) {
  for (const BoundTensor& known : plan.tensors)
    if (known.target_name == target_name) return known;
  internal_error(fmt::format("no tensor '{}'", target_name));
}

/// One rank's shard: per dim the global intervals, in stored order, and "+n" for padding: "[0-4 8-12 +2, 0-3]".
inline std::string shard_text(const layout::TensorLayout& layout, Index rank) {
  if (!layout.is_present(rank)) return "-";
  std::string out;
  for (const layout::DimLayout& dim : layout.dims) {
    const auto part = static_cast<std::size_t>(dim.part_of(rank));
    std::vector<std::pair<Index, std::string>> pieces;
    for (const layout::Run& run : dim.parts[part].runs)
      pieces.emplace_back(run.stored, fmt::format("{}-{}", run.global, run.global + run.length));
    for (const layout::Pad& pad : dim.parts[part].pads) pieces.emplace_back(pad.stored, fmt::format("+{}", pad.length));
    std::sort(pieces.begin(), pieces.end());
    std::string text;
    for (const auto& [stored, piece] : pieces) text += (text.empty() ? "" : " ") + piece;
    out += (out.empty() ? "" : ", ") + text;
  }
  return "[" + out + "]";
}

using Shards = std::vector<std::string>;

inline Shards shards(const layout::TensorLayout& layout) {
  Shards out;
  for (Index rank = 0; rank < layout.ranks; ++rank) out.push_back(shard_text(layout, rank));
  return out;
}

inline Shards target_shards(const BoundPlan& plan, std::string_view target_name) {
  return shards(plan.layouts[tensor(plan, target_name).layout].target);
}

inline Shards source_shards(const BoundPlan& plan, std::string_view target_name) {
  return shards(plan.layouts[tensor(plan, target_name).layout].source);
}

inline std::vector<std::string> lines(const std::vector<Warning>& warnings) {
  std::vector<std::string> out;
  for (const Warning& warning : warnings) out.push_back(to_line(warning));
  return out;
}

using Lines = std::vector<std::string>;

}  // namespace reshard::planner::test
