#include "reshard/layout/dim_shard.hpp"

namespace reshard::layout {

Index DimShard::true_length() const {
  Index out = 0;
  for (const Run& run : runs) out += run.length;
  return out;
}

}  // namespace reshard::layout
