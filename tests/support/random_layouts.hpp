#pragma once
// Random meshes, shapes and cuts for property tests, with the features that each case shows.

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/layout/tensor_layout.hpp"

namespace reshard::random_layouts {

using layout::Index;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// Uniform in [low, high].
  Index between(Index low, Index high) {
    return low + static_cast<Index>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(Index percent) { return between(1, 100) <= percent; }
  template <typename T>
  const T& one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<Index>(values.size()) - 1))];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<std::size_t>(between(0, static_cast<Index>(i) - 1))]);
  }

 private:
  std::mt19937_64 engine_;
};

struct Side {
  std::vector<layout::Axis> axes;
  std::vector<Index> ranks;  ///< empty: identity
  layout::TensorCut cut;
};

struct Case {
  Shape shape;
  Side source;
  Side target;
  std::set<std::string> features;
};

/// Every feature that cases are drawn to show.
const std::vector<std::string>& features();

/// The cut of a dim of `length` by `axes`, drawn to show `wish`; `seen` gets the features it shows.
layout::DimCut draw_dim(Random& random, Index length, const std::vector<layout::Axis>& axes, const std::string& wish,
                        std::set<std::string>& seen);

/// The cut in steps of k elements, so that most boundaries are those of blocks.
layout::DimCut in_steps_of(layout::DimCut cut, Index k);

/// A case that was drawn to show `wish`; it may be one that is refused.
Case draw(Random& random, const std::string& wish);

/// A cut, a case as text, to be printed where it fails.
std::string describe(const layout::DimCut& cut);
std::string describe(const Case& c);

}  // namespace reshard::random_layouts
