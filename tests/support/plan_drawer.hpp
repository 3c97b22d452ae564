#pragma once
// A random plan case in the making: sides in plan_draw.cpp, rules of single tensors in plan_draw_tensors.cpp, of groups
// in plan_draw_groups.cpp.

#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/plan_parts.hpp"

namespace reshard::plan_cases {

class Drawer {
 public:
  Drawer(Random& random, std::string wish) : random_(random), wish_(std::move(wish)) {}

  PlanCase draw();

 private:
  /// One side's words for a tensor.
  struct Words {
    std::string key;  ///< shard or place
    std::string text;
    std::set<std::string> shown;
    std::vector<Tensor> boundaries;  ///< tensors that `packed` names
  };
  /// `owner` of one side for the numbers of a rule's tensors, and where each of them is.
  struct Owner {
    std::string text;
    std::vector<Index> coordinate;  ///< by number; empty: every rank
    std::vector<Index> first;       ///< number of every coordinate
    bool local = false;
  };
  /// The named dims of a group, `out` and `in`.
  struct GroupDims {
    std::array<Index, 2> lengths = {};
    std::array<std::vector<Index>, 2> segments;  ///< not empty: block numbering restarts in each
    std::array<std::array<std::vector<naive::Line>, 2>, kSides> lines;
  };
  struct Member {
    std::string suffix;
    std::string written;                      ///< the suffix as a plan has it: with ? where it may be absent
    std::vector<std::pair<int, Index>> dims;  ///< dim (-1: never cut), divisor
    bool absent = false;
  };

  void see(const std::string& feature, int section);
  bool wishes(const std::string& feature, Index percent, Index otherwise);

  SideSpec draw_side();
  void share_files();
  bool are_replicas(std::size_t side, Index a, Index b) const;

  Shape draw_shape();
  bool has_hdf5() const;
  Dtype draw_dtype();
  std::vector<layout::Axis> free_axes(std::size_t side, bool expert);

  void draw_tensors(bool placed, bool owned);
  void draw_whole();
  void draw_dtypes(Rule& rule, Tensor& tensor);
  std::string draw_pattern(const std::string& name, std::size_t number);
  std::optional<Words> draw_shard(const Shape& shape, std::size_t side, bool expert, std::vector<layout::Axis> free,
                                  layout::Fallback fallback, Stored& stored);
  std::optional<Words> draw_place(const Shape& shape, std::size_t side, bool expert,
                                  const std::vector<layout::Axis>& free, layout::Fallback fallback, Stored& stored);
  void note_cut(const DimCut& cut, const std::set<std::string>& seen, std::set<std::string>& shown);
  void name_boundaries(layout::PackedSequences& packed, std::vector<Tensor>& out);
  Owner draw_owner(Index size, Index count);

  void draw_group();
  void draw_projection();
  std::optional<DimCut> draw_group_dim(Index length, Index k, const std::vector<Index>& segments,
                                       const std::vector<layout::Axis>& axes, std::set<std::string>& seen);
  bool fits_blocks(const std::vector<naive::Line>& lines, Index length, Index k,
                   const std::vector<Index>& segments) const;
  void add_members(const std::string& prefix, const std::vector<Member>& members, const GroupDims& dims);

  void add(Tensor tensor);

  Random& random_;
  std::string wish_;
  PlanCase out_;
  std::array<std::vector<std::string>, kSides> elsewhere_;  ///< axes that only the other sides have
  int boundary_tensors_ = 0;
};

}  // namespace reshard::plan_cases
