#include "reshard/layout/copy_box.hpp"

#include <utility>

namespace reshard::layout {

CopyBox flattened(CopyBox box) {
  std::vector<CopyDim> dims;  // innermost first
  for (std::size_t i = box.dims.size(); i-- > 0;) {
    const CopyDim& dim = box.dims[i];
    if (dims.empty()) {
      dims.push_back(dim);
      continue;
    }
    if (dim.extent == 1) continue;
    CopyDim& inner = dims.back();
    const bool joins = dim.source_stride == inner.extent * inner.source_stride &&
                       dim.target_stride == inner.extent * inner.target_stride &&
                       dim.logical_stride == inner.extent * inner.logical_stride;
    if (joins) {
      inner.extent *= dim.extent;
    } else {
      dims.push_back(dim);
    }
  }
  box.dims.assign(dims.rbegin(), dims.rend());
  return box;
}

std::vector<Index> packed_strides(const CopyBox& box) {
  std::vector<Index> out(box.dims.size());
  Index stride = 1;
  for (std::size_t i = box.dims.size(); i-- > 0;) {
    out[i] = stride;
    stride *= box.dims[i].extent;
  }
  return out;
}

}  // namespace reshard::layout
