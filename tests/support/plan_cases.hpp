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
  std::string files;  ///< beginning of the names where they are not the default ones

  Index world() const;
  std::string file(Index rank) const;
};

/// A tensor on one side, element by element.
struct Stored {
  std::string name;
  std::vector<bool> present;                       ///< by rank
  std::vector<std::vector<naive::Line>> lines;     ///< by dim, rank
  std::vector<std::vector<std::byte>> pad_values;  ///< by dim; empty: zero bytes
};

struct Tensor {
  Dtype dtype = Dtype::kU8;
  Shape shape;
  std::array<std::string, kSides> names;  ///< identities, with global numbers
  std::array<Stored, kSides> sides;
  bool dropped = false;

  /// Bytes of one element: a mixing hash of the tensor's first name and the element's row-major index.
  std::vector<std::byte> element(std::uint64_t index) const;
  /// The whole tensor, row-major.
  std::vector<std::byte> logical() const;
  Shape stored_shape(std::size_t side, Index rank) const;
  /// What a rank stores as a target; as a source its padding is garbage.
  std::vector<std::byte> stored(std::size_t side, Index rank, bool garbage) const;
};

struct Rule {
  std::array<std::string, kSides> match;
  std::array<std::string, kSides> rename;                          ///< empty: names stay
  std::map<std::string, std::string> common;                       ///< JSON by key
  std::array<std::map<std::string, std::string>, kSides> by_side;  ///< JSON by key
};

struct PlanCase {
  std::array<SideSpec, kSides> sides;
  std::vector<Rule> rules;
  std::vector<Tensor> tensors;
  bool replicates_unmatched = false;
  std::set<std::string> features;  ///< "section 5", "fill last", ...

  /// The plan from one side to another, as JSON (which YAML reads as well).
  std::string text(std::size_t from, std::size_t to) const;
};

/// `wish`: what the case should show, of features().
PlanCase draw(random_layouts::Random& random, const std::string& wish);

/// Every feature that cases are drawn to show.
const std::vector<std::string>& features();

/// A dim's cut as an entry of `shard`. `size`: given where it is not negative.
std::string to_json(random_layouts::Random& random, const layout::DimCut& cut, Index size);

}  // namespace reshard::plan_cases
