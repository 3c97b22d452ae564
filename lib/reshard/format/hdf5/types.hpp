#pragma once
// Element types of HDF5 datasets and ours.
//
// | dtype            | written as                             | read from (either byte order)                      |
// | ---------------- | -------------------------------------- | -------------------------------------------------- |
// | u8..u64, i8..i64 | standard integers                      | integers without padding bits                      |
// | f16, f32, f64    | IEEE floats                            | floats with these fields                           |
// | bf16, f8_e5m2    | custom floats of 16 and 8 bits         | floats with these fields; attribute `dtype`        |
// | other f8         | u8                                     | attribute `dtype`; f8_e4m3 as a float (HDF5 2.0)   |
// | bool             | enum of int8, FALSE 0, TRUE 1 (h5py)   | the same, of any 1-byte integer                    |
// | c64, c128        | compound of two floats r, i (h5py)     | the same                                           |
//
// f8_e4m3 is never written as a float: the library takes the top exponent for infinity and NaN, so 448 would read
// as NaN.
//
// The `dtype` attribute counts on integers and opaque types, where it names a type of the stored width: Keras 3 stores
// bfloat16 as opaque 2-byte elements with dtype = "bfloat16".

#include <hdf5.h>

#include <optional>
#include <string>

#include "reshard/base/dtype.hpp"
#include "reshard/format/hdf5/handle.hpp"

namespace reshard::format::hdf5 {

/// A new file type for a dtype. Errors: kInternal.
Handle make_type(Dtype dtype);

struct ElementType {
  Dtype dtype = Dtype::kU8;
  bool big_endian = false;
};

/// What a dataset's type is to us. `dtype_attribute` is the text of its attribute `dtype`, if it has one. Errors:
/// kDtype without place, telling the type found and what would do.
ElementType element_type(hid_t type, const std::optional<std::string>& dtype_attribute);

}  // namespace reshard::format::hdf5
