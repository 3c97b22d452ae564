#pragma once
// What padding a cut asks for, in words, for the refusal of shards that are not padded so.

#include <string>

#include "reshard/layout/cut.hpp"

namespace reshard::layout {

/// "; pad_to 16 over axis 'gtp' of size 3 makes its line a multiple of 48", for every kind of padding that the cut has;
/// nothing where it pads nothing. Errors: kOverflow.
std::string padding_text(const DimCut& cut);

}  // namespace reshard::layout
