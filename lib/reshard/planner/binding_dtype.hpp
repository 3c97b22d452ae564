#pragma once
// What a dtype can hold: which conversions lose something, and which padding values are exact.

#include <cstddef>
#include <vector>

#include "reshard/base/dtype.hpp"

namespace reshard::planner {

/// Whether some finite value of `from` is not one of `to`. Both are convertible (f64, f32, f16, bf16).
bool narrows(Dtype from, Dtype to);

/// Whether a finite number is exactly representable, subnormals included. A bool holds 0 and 1, a complex type what its
/// real part holds.
bool holds_exactly(Dtype dtype, double value);

/// The element, little-endian, of a value that the dtype holds exactly; of a complex type, its real part.
std::vector<std::byte> element_of(Dtype dtype, double value);

}  // namespace reshard::planner
