#include "reshard/planner/cover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"

namespace reshard::planner {
namespace {

class Sweep {
 public:
  Sweep(const Shape& shape, std::span<const Interval> intervals) : shape_(shape), intervals_(intervals) {}

  Cover run(std::vector<std::size_t> boxes) {
    if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return {};
    at_.assign(shape_.size(), 0);
    visit(0, 1, std::move(boxes));
    return std::move(out_);
  }

 private:
  const Interval& interval(std::size_t box, std::size_t dim) const { return intervals_[box * shape_.size() + dim]; }

  // `boxes` lie over one slab of the dims before `dim`, of `volume` equal rows whose first is at_.
  void visit(std::size_t dim, Index volume, std::vector<std::size_t> boxes) {
    if (boxes.empty() || dim == shape_.size()) {
      count(dim, volume, boxes.size());
      return;
    }
    std::vector<Index> ends;
    for (const std::size_t box : boxes) ends.push_back(interval(box, dim).end);
    std::sort(ends.begin(), ends.end());
    std::sort(boxes.begin(), boxes.end(),
              [&](std::size_t a, std::size_t b) { return interval(a, dim).begin < interval(b, dim).begin; });

    std::vector<std::size_t> active;
    auto next_begin = boxes.begin();
    auto next_end = ends.begin();
    Index from = 0;
    while (from < shape_[dim]) {
      const Index begin = next_begin == boxes.end() ? shape_[dim] : interval(*next_begin, dim).begin;
      const Index end = next_end == ends.end() ? shape_[dim] : *next_end;
      const Index to = std::min(begin, end);
      if (to > from) {
        at_[dim] = from;
        visit(dim + 1, checked_mul(volume, to - from), active);
        from = to;
      }
      if (from == shape_[dim]) break;
      std::erase_if(active, [&](std::size_t box) { return interval(box, dim).end <= from; });
      while (next_end != ends.end() && *next_end <= from) ++next_end;
      for (; next_begin != boxes.end() && interval(*next_begin, dim).begin <= from; ++next_begin)
        if (interval(*next_begin, dim).end > from) active.push_back(*next_begin);
    }
  }

  void count(std::size_t dim, Index volume, std::size_t boxes) {
    if (boxes == 1) return;
    for (std::size_t d = dim; d < shape_.size(); ++d) {
      volume = checked_mul(volume, shape_[d]);
      at_[d] = 0;
    }
    Index& counter = boxes == 0 ? out_.missing : out_.twice;
    if (counter == 0) (boxes == 0 ? out_.first_missing : out_.first_twice) = at_;
    counter = checked_add(counter, volume);
  }

  const Shape& shape_;
  std::span<const Interval> intervals_;
  std::vector<Index> at_;
  Cover out_;
};

}  // namespace

Cover cover_each(const Shape& shape, std::span<const Interval> intervals, std::size_t count) {
  std::vector<std::size_t> boxes(count);
  for (std::size_t i = 0; i < count; ++i) boxes[i] = i;
  return Sweep(shape, intervals).run(std::move(boxes));
}

Cover cover(const Shape& shape, std::span<const Box> boxes) {
  std::vector<Box> distinct(boxes.begin(), boxes.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<Interval> intervals;
  for (const Box& box : distinct) {
    if (box.size() != shape.size())
      internal_error(fmt::format("a box of {} dims meets a shape of {}", box.size(), shape.size()));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (box[d].begin < 0 || box[d].end > shape[d] || box[d].begin > box[d].end)
        throw Error(Issue{
            ErrorCode::kCoverage, "", kNoTensor,
            fmt::format("a box holds {}:{} of dim {}, which has length {}", box[d].begin, box[d].end, d, shape[d])});
      intervals.push_back(box[d]);
    }
  }
  return cover_each(shape, intervals, distinct.size());
}

}  // namespace reshard::planner
