#pragma once
// Random plans over small checkpoints, with what every rank of either side must store. A case has three sides, so that
// a checkpoint can go from the first to the second and back, or on to the third; the plan between any two of them is
// written from the same values. What is stored comes from the naive oracle alone.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "support/naive_oracle.hpp"
#include "support/random_layouts.hpp"

namespace reshard::plan_cases {

using layout::Index;

inline constexpr std::size_t kSides = 3;

struct SideSpec {
  std::vector<layout::Axis> axes;
  std::vector<layout::Axis> expert;  ///< the view of that name; empty: none
  std::vector<Index> ranks;          ///< empty: identity
  std::string format;
  std::string files;                ///< beginning of the names where they are not the default ones
  std::vector<std::string> fields;  ///< axes in the names; empty: the rank's number
  std::string idle;                 ///< an axis that no rule cuts by; empty: none

  Index world() const;
  std::string file(Index rank) const;
  /// What a plan calls these files; empty: nothing, they have the default names.
  std::string file_template() const;
  /// Rank at a position of the mesh.
  Index rank_at(Index position) const;
};

/// A tensor on one side, element by element.
struct Stored {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<bool> present;                       ///< by rank
  std::vector<std::vector<naive::Line>> lines;     ///< by dim, rank
  std::vector<std::vector<std::byte>> pad_values;  ///< by dim; empty: zero bytes
};

struct Tensor {
  Shape shape;
  std::array<std::string, kSides> names;  ///< identities, with global numbers
  std::array<Stored, kSides> sides;
  std::vector<Index> numbers;  ///< not empty: what the elements are
  bool converted = false;      ///< by `dtype`: elements are numbers that every such dtype holds exactly
  bool dropped = false;

  /// Bytes of one element on a side: a mixing hash of the tensor's first name and the element's row-major index.
  std::vector<std::byte> element(std::size_t side, std::uint64_t index) const;
  /// The whole tensor, row-major.
  std::vector<std::byte> logical(std::size_t side) const;
  Shape stored_shape(std::size_t side, Index rank) const;
  /// What a rank stores as a target; as a source its padding is garbage.
  std::vector<std::byte> stored(std::size_t side, Index rank, bool garbage) const;
};

struct Rule {
  std::array<std::string, kSides> match;
  std::array<std::string, kSides> rename;                          ///< empty: names stay
  std::array<std::string, kSides> dtype;                           ///< empty: bits stay
  std::map<std::string, std::string> common;                       ///< JSON by key
  std::array<std::map<std::string, std::string>, kSides> by_side;  ///< JSON by key
};

struct PlanCase {
  std::array<SideSpec, kSides> sides;
  std::vector<Rule> rules;
  std::vector<Tensor> tensors;
  bool replicates_unmatched = false;
  bool merges_overrides = false;      ///< a target's `shard` is written as changes to the source's
  std::map<std::string, Index> vars;  ///< what `${}` in the words of rules means
  std::set<std::string> features;     ///< "section 5", "fill last", ...

  /// The plan from one side to another, as JSON (which YAML reads as well).
  std::string text(std::size_t from, std::size_t to) const;
};

/// `wish`: what the case should show, of features().
PlanCase draw(random_layouts::Random& random, const std::string& wish);

/// Every feature that cases are drawn to show.
const std::vector<std::string>& features();

/// How numbers and cuts are written; the choices are random.
struct Wording {
  random_layouts::Random& random;
  bool with_vars = false;                                ///< some numbers as `${}`
  layout::Fallback fallback = layout::Fallback::kError;  ///< the rule's default
  std::set<std::string> shown = {};                      ///< "vars" where one was written

  /// An integer, as JSON.
  std::string number(Index value);
  /// A dim's cut as an entry of `shard`. `size`: given where it is not negative.
  std::string cut(const layout::DimCut& cut, Index size);
};

/// The variables that a Wording writes.
const std::map<std::string, Index>& variables();

}  // namespace reshard::plan_cases
