#include "reshard/layout/infer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/layout/candidate_lengths.hpp"
#include "reshard/layout/padding_text.hpp"
#include "reshard/layout/sequence.hpp"
#include "reshard/layout/tensor_layout.hpp"

namespace reshard::layout {
namespace {

constexpr Index kMaxProbeWork = Index{1} << 22;  // coordinates looked at while searching for lengths that fit
constexpr std::size_t kNamedRanks = 8;           // stored lengths written into a message

// What is stored for each tuple of coordinates, row-major over the levels; kAbsent where no rank tells.
std::vector<Index> lengths_by_tuple(const DimCut& cut, const Mesh& mesh, std::span<const Index> stored) {
  std::size_t tuples = 1;
  for (const Level& level : cut.levels) tuples *= static_cast<std::size_t>(level.axis_size);
  std::vector<Index> out(tuples, kAbsent);
  std::vector<Index> told_by(tuples, kAbsent);
  for (Index rank = 0; rank < mesh.size(); ++rank) {
    const Index length = stored[static_cast<std::size_t>(rank)];
    if (length == kAbsent) continue;
    const std::size_t tuple = tuple_of_rank(cut, mesh, rank);
    if (out[tuple] != kAbsent && out[tuple] != length)
      throw Error(Issue{ErrorCode::kShape, "", kNoTensor,
                        fmt::format("ranks {} and {} hold the same part, but store lengths {} and {}", told_by[tuple],
                                    rank, out[tuple], length)});
    out[tuple] = length;
    told_by[tuple] = rank;
  }
  return out;
}

// Why a length does not fit: the cut refuses it (with the cut's code), or it would be stored otherwise (kShape).
struct Misfit {
  ErrorCode code = ErrorCode::kShape;
  std::string message = "no length is stored like that";
};

// True where a dim of this length is stored as told. `why` is filled with the reason where it is not.
bool fits(const DimCut& cut, Index length, std::span<const Index> by_tuple, Misfit* why = nullptr) {
  DimCut resolved = cut;
  std::vector<std::string> fallen_back;
  if (const auto refused = resolve_fallbacks(resolved, length, fallen_back)) {
    if (why) *why = {refused->code, refused->message};
    return false;
  }
  const std::vector<Index> lengths = stored_lengths(resolved, length);
  for (std::size_t tuple = 0; tuple < by_tuple.size(); ++tuple) {
    // A level that fell back has one coordinate instead of its own: 5 of sizes [2, 3] is (1, 2), and (1, 0) = 1 of [2,
    // 1].
    std::size_t rest = tuple;
    std::size_t index = 0;
    std::size_t weight = 1;
    for (std::size_t i = cut.levels.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(cut.levels[i].axis_size);
      const auto resolved_size = static_cast<std::size_t>(resolved.levels[i].axis_size);
      if (resolved_size > 1) index += rest % size * weight;
      weight *= resolved_size;
      rest /= size;
    }
    if (by_tuple[tuple] == kAbsent || by_tuple[tuple] == lengths[index]) continue;
    if (why)
      *why = {ErrorCode::kShape,
              fmt::format("it would be stored as {} where {} is found{}", lengths[index], by_tuple[tuple],
                          cut.pad_total && by_tuple[tuple] * static_cast<Index>(by_tuple.size()) == length
                              ? "; where only the target is padded, 'pad_total' stands under `target`"
                              : "")};
    return false;
  }
  return true;
}

struct Fits {
  std::optional<Index> lowest;
  std::optional<Index> highest;
  bool exhausted = false;  // the search was cut short
};

Fits search(const DimCut& cut, const std::vector<Progression>& candidates, std::span<const Index> by_tuple) {
  Fits out;
  Index probes = std::max(kMaxProbeWork / static_cast<Index>(by_tuple.size()), Index{64});
  const auto look = [&](Index from, Index to, Index step) {
    for (Index length = from; step > 0 ? length <= to : length >= to; length += step) {
      if (probes-- <= 0) {
        out.exhausted = true;
        return;
      }
      if (!fits(cut, length, by_tuple)) continue;
      if (!out.lowest || length < *out.lowest) out.lowest = length;
      if (!out.highest || length > *out.highest) out.highest = length;
      return;
    }
  };
  for (const Progression& p : candidates) {
    look(p.first, p.last, p.step);
    if (p.last > p.first) look(p.last, p.first, -p.step);
  }
  return out;
}

std::string stored_text(std::span<const Index> stored) {
  std::vector<std::string> out;
  for (const Index length : stored) {
    if (length == kAbsent) continue;
    if (out.size() == kNamedRanks) {
      out.push_back("...");
      break;
    }
    out.push_back(std::to_string(length));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

// " (8 in all)" where the shards, not the plan, leave only one length.
std::string implied_text(const DimCut& cut, const CandidateLengths& candidates) {
  const bool is_told = !cut.levels.empty() && (!cut.levels.front().segments.empty() || cut.levels.front().packed);
  if (is_told || !candidates.lengths || candidates.lengths->size() != 1) return "";
  const Progression& only = candidates.lengths->front();
  return only.first == only.last ? fmt::format(" ({} in all)", only.last) : "";
}

// Where the cut pads: by what rule, and the true lengths that the stored ones would be right for.
std::string padding_note(const DimCut& cut, const CandidateLengths& candidates, std::span<const Index> by_tuple) {
  const std::string rule = padding_text(cut);
  if (rule.empty() || !candidates.lengths) return rule;
  const Fits found = search(cut, *candidates.lengths, by_tuple);
  if (!found.lowest) return found.exhausted ? rule : rule + "; no length is stored as these are";
  return *found.lowest == *found.highest
             ? fmt::format("{}; the stored lengths are right for {}", rule, *found.lowest)
             : fmt::format("{}; the stored lengths are right for {} to {}", rule, *found.lowest, *found.highest);
}

struct Hint {
  const char* source;
  Index length;
  bool is_packed = false;
};

// Whether parts of one length by the cut are stored with different ones: no length of the dim makes up for that.
bool parts_differ(const DimCut& cut, Index length, std::span<const Index> by_tuple) {
  DimCut resolved = cut;
  std::vector<std::string> fallen_back;
  if (resolve_fallbacks(resolved, length, fallen_back) || !fallen_back.empty()) return false;
  const std::vector<Index> expected = stored_lengths(resolved, length);
  std::map<Index, Index> found;
  for (std::size_t tuple = 0; tuple < by_tuple.size(); ++tuple)
    if (by_tuple[tuple] != kAbsent &&
        found.try_emplace(expected[tuple], by_tuple[tuple]).first->second != by_tuple[tuple])
      return true;
  return false;
}

[[noreturn]] void refuse(ErrorCode code, std::string message) {
  throw Error(Issue{code, "", kNoTensor, std::move(message)});
}

}  // namespace

Index infer_length(const DimCut& cut, const Mesh& mesh, std::span<const Index> stored, std::optional<Index> recorded) {
  if (auto refused = option_refusal(cut)) refuse(refused->code, std::move(refused->message));
  const std::vector<Index> by_tuple = lengths_by_tuple(cut, mesh, stored);

  std::vector<Hint> hints;
  if (cut.size) hints.push_back({"'size'", *cut.size});
  if (!cut.levels.empty() && !cut.levels.front().segments.empty()) {
    Index sum = 0;
    for (const Segment& segment : cut.levels.front().segments) sum = checked_add(sum, segment.size);
    hints.push_back({"the sum of 'segments'", sum});
  }
  if (!cut.levels.empty() && cut.levels.front().packed) {
    const PackedSequences& packed = *cut.levels.front().packed;
    const std::vector<Index>& physical =
        packed.cu_seqlens_padded.empty() ? packed.cu_seqlens : packed.cu_seqlens_padded;
    const Index total = physical.empty() ? 0 : physical.back();
    if (auto refused = packed_refusal(packed, total)) refuse(refused->code, std::move(refused->message));
    hints.push_back({"the end of 'packed'", total, true});
  }
  if (recorded) hints.push_back({"the length the checkpoint records", *recorded});
  for (const Hint& hint : hints)
    if (hint.length != hints.front().length)
      refuse(
          hint.is_packed || hints.front().is_packed ? ErrorCode::kSeqLayout : ErrorCode::kShape,
          fmt::format("{} is {}, but {} is {}", hints.front().source, hints.front().length, hint.source, hint.length));

  const CandidateLengths candidates = candidate_lengths(cut, by_tuple);
  if (!hints.empty()) {
    Misfit why;
    if (fits(cut, hints.front().length, by_tuple, &why)) return hints.front().length;
    // A hint that fits no legal length is a wrong shape; fused parts and packed sequences speak for themselves.
    ErrorCode code = ErrorCode::kShape;
    if (!cut.levels.empty() && !cut.levels.front().segments.empty())
      code = why.code == ErrorCode::kShape ? ErrorCode::kSegmentSum : why.code;
    else if (!cut.levels.empty() && cut.levels.front().packed && !parts_differ(cut, hints.front().length, by_tuple))
      code = ErrorCode::kSeqLayout;
    refuse(code, fmt::format("{} is {}, but the ranks store {}{}: {}{}", hints.front().source, hints.front().length,
                             stored_text(stored), implied_text(cut, candidates), why.message,
                             padding_note(cut, candidates, by_tuple)));
  }
  if (!candidates.lengths || candidates.open)
    refuse(ErrorCode::kMissing,
           "not every coordinate's part is stored on some rank, so the true length is unknown; give 'size'");

  const Fits found = search(cut, *candidates.lengths, by_tuple);
  const bool any_stored = std::any_of(by_tuple.begin(), by_tuple.end(), [](Index length) { return length > 0; });
  if ((!found.lowest && candidates.padding_exceeds) || (found.highest == Index{0} && any_stored))
    refuse(ErrorCode::kPad,
           fmt::format("the ranks store {}: nothing is left without the padding", stored_text(stored)));
  if (found.exhausted)
    refuse(ErrorCode::kPad,
           fmt::format("the ranks store {}: the true length is unknown; give 'size'", stored_text(stored)));
  if (!found.lowest) {
    Misfit why;
    if (!candidates.lengths->empty()) {
      const Index length = candidates.lengths->front().last;
      fits(cut, length, by_tuple, &why);
      why.message = fmt::format("a length of {} does not fit: {}", length, why.message);
      // Where the shards leave only one length, the cut's own refusal of it is the fault; else the shapes are.
      if (candidates.lengths->size() > 1 || candidates.lengths->front().first != length) why.code = ErrorCode::kShape;
    }
    refuse(why.code, fmt::format("the ranks store {}: {}{}", stored_text(stored), why.message, padding_text(cut)));
  }
  if (*found.lowest != *found.highest)
    refuse(ErrorCode::kPad, fmt::format("the ranks store {}: any true length from {} to {} may fit; give 'size'",
                                        stored_text(stored), *found.lowest, *found.highest));
  return *found.lowest;
}

Shape infer_shape(const TensorCut& cut, const Mesh& mesh, std::span<const Shape> stored,
                  const std::optional<Shape>& recorded) {
  const std::size_t dims = cut.dims.size();
  if (static_cast<Index>(stored.size()) != mesh.size())
    internal_error(fmt::format("{} stored shapes for a mesh of {} ranks", stored.size(), mesh.size()));
  const auto is_present = [&](std::size_t rank) { return cut.present.empty() || cut.present[rank]; };
  for (std::size_t rank = 0; rank < stored.size(); ++rank)
    if (is_present(rank) && stored[rank].size() != dims)
      refuse(ErrorCode::kShape, fmt::format("rank {} stores {} dims, expected {}", rank, stored[rank].size(), dims));
  if (recorded && recorded->size() != dims)
    refuse(ErrorCode::kShape, fmt::format("the checkpoint records {} dims, but stores {}", recorded->size(), dims));

  Shape out(dims, 0);
  std::vector<Issue> issues;
  std::vector<Index> lengths(stored.size());
  for (std::size_t d = 0; d < dims; ++d) {
    for (std::size_t rank = 0; rank < stored.size(); ++rank)
      lengths[rank] = is_present(rank) ? stored[rank][d] : kAbsent;
    try {
      out[d] = infer_length(cut.dims[d], mesh, lengths, recorded ? std::optional((*recorded)[d]) : std::nullopt);
    } catch (const Error& error) {
      for (Issue issue : error.issues()) {
        issue.message = fmt::format("dim {}: {}", d, issue.message);
        issues.push_back(std::move(issue));
      }
    }
  }
  if (!issues.empty()) throw Error(std::move(issues));
  return out;
}

}  // namespace reshard::layout
