#include "reshard/planner/readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::planner {
namespace {

// A piece that waits for its reader.
struct Waiting {
  std::int64_t bytes = 0;
  std::size_t id = 0;
  std::span<const Index> holders;
};

// Hands pieces to readers. Pieces with one holder come before all others and their order does not matter, so only the
// others are sorted.
class Assignment {
 public:
  // Returns the reader at once where there is only one.
  std::optional<Index> add(const Waiting& piece) {
    if (piece.holders.size() > 1) {
      waiting_.push_back(piece);
      return std::nullopt;
    }
    give(piece.holders.front(), piece.bytes);
    return piece.holders.front();
  }

  template <typename Assign>
  void finish(Assign assign) {
    std::sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
      return std::tuple(a.holders.size(), -a.bytes, a.id) < std::tuple(b.holders.size(), -b.bytes, b.id);
    });
    for (const Waiting& piece : waiting_) {
      Index best = piece.holders.front();
      for (const Index rank : piece.holders)
        if (load(rank) < load(best)) best = rank;
      give(best, piece.bytes);
      assign(piece.id, best);
    }
  }

 private:
  std::int64_t& load(Index rank) {
    const std::size_t i = static_cast<std::size_t>(rank);
    if (i >= loads_.size()) loads_.resize(i + 1, 0);
    return loads_[i];
  }
  void give(Index rank, std::int64_t bytes) { load(rank) = checked_add(load(rank), bytes); }

  std::vector<std::int64_t> loads_;
  std::vector<Waiting> waiting_;
};

// The pieces of one layout: their elements and the ranks that hold them, row-major over the dims.
struct LayoutPieces {
  std::vector<Index> elements;
  std::vector<std::size_t> holders;  // index into holder_sets
  std::vector<std::vector<Index>> holder_sets;
};

class PieceFinder {
 public:
  explicit PieceFinder(const layout::TensorLayout& layout) : layout_(layout) {
    for (const layout::DimLayout& dim : layout.dims) ranges_.push_back(held_ranges(dim));
    std::vector<std::int32_t> parts(layout.dims.size());
    for (Index rank = 0; rank < layout.ranks; ++rank) {
      if (!layout.is_present(rank)) continue;
      for (std::size_t d = 0; d < parts.size(); ++d) parts[d] = layout.dims[d].part_of(rank);
      ranks_[parts].push_back(rank);
    }
  }

  LayoutPieces find() {
    chosen_.assign(ranges_.size(), 0);
    visit(0, 1);
    return std::move(out_);
  }

 private:
  void visit(std::size_t dim, Index elements) {
    if (dim == ranges_.size()) {
      out_.elements.push_back(elements);
      out_.holders.push_back(holder_set());
      return;
    }
    for (std::size_t i = 0; i < ranges_[dim].size(); ++i) {
      chosen_[dim] = i;
      visit(dim + 1, checked_mul(elements, ranges_[dim][i].length));
    }
  }

  // The ranks whose part of every dim is among the holders of the chosen range.
  std::size_t holder_set() {
    std::vector<Index> found;
    std::vector<std::int32_t> parts(ranges_.size());
    collect(0, parts, found);
    std::sort(found.begin(), found.end());
    if (found.empty()) {
      std::string box;
      for (std::size_t d = 0; d < ranges_.size(); ++d) {
        const HeldRange& range = ranges_[d][chosen_[d]];
        box += fmt::format("{}{}:{}", d == 0 ? "" : ", ", range.global, range.global + range.length);
      }
      throw Error(Issue{ErrorCode::kCoverage, "", kNoTensor,
                        fmt::format("no source rank that is there holds elements [{}]", box)});
    }
    const auto [entry, added] = set_numbers_.try_emplace(found, out_.holder_sets.size());
    if (added) out_.holder_sets.push_back(std::move(found));
    return entry->second;
  }

  void collect(std::size_t dim, std::vector<std::int32_t>& parts, std::vector<Index>& found) {
    if (dim == ranges_.size()) {
      const auto entry = ranks_.find(parts);
      if (entry != ranks_.end()) found.insert(found.end(), entry->second.begin(), entry->second.end());
      return;
    }
    for (const Holding& holding : ranges_[dim][chosen_[dim]].holders) {
      parts[dim] = holding.part;
      collect(dim + 1, parts, found);
    }
  }

  const layout::TensorLayout& layout_;
  std::vector<std::vector<HeldRange>> ranges_;
  std::map<std::vector<std::int32_t>, std::vector<Index>> ranks_;  // by part of every dim
  std::map<std::vector<Index>, std::size_t> set_numbers_;
  std::vector<std::size_t> chosen_;
  LayoutPieces out_;
};

}  // namespace

std::vector<Index> assign_readers(std::span<const Piece> pieces) {
  std::vector<Index> out(pieces.size(), 0);
  Assignment assignment;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (const auto reader = assignment.add({pieces[i].bytes, i, pieces[i].holders})) out[i] = *reader;
  assignment.finish([&](std::size_t id, Index reader) { out[id] = reader; });
  return out;
}

std::vector<std::vector<Index>> choose_sources(std::span<const TensorToRead> tensors) {
  std::unordered_map<const layout::TensorLayout*, LayoutPieces> known;
  std::vector<std::vector<Index>> out(tensors.size());
  std::vector<std::size_t> first_id;  // of each tensor's pieces: ids run through all tensors
  Assignment assignment;
  std::size_t id = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto [entry, added] = known.try_emplace(tensors[t].source);
    LayoutPieces& pieces = entry->second;
    if (added) pieces = PieceFinder(*tensors[t].source).find();
    first_id.push_back(id);
    out[t].resize(pieces.elements.size());
    for (std::size_t i = 0; i < pieces.elements.size(); ++i, ++id) {
      const std::int64_t bytes = checked_mul(pieces.elements[i], tensors[t].element_bytes);
      if (const auto reader = assignment.add({bytes, id, pieces.holder_sets[pieces.holders[i]]})) out[t][i] = *reader;
    }
  }
  assignment.finish([&](std::size_t piece, Index reader) {
    const auto tensor =
        static_cast<std::size_t>(std::upper_bound(first_id.begin(), first_id.end(), piece) - first_id.begin()) - 1;
    out[tensor][piece - first_id[tensor]] = reader;
  });
  return out;
}

}  // namespace reshard::planner
