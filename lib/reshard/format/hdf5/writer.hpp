#pragma once
// Creates an HDF5 file with everything but the tensor bytes.

#include "reshard/format/format.hpp"

namespace reshard::format::hdf5 {

/// Errors: kUnsupported for names beyond 16384 bytes or with a NUL and for more than 32 dims.
void check_tensor(const NewTensor& tensor);

/// `path` is overwritten: the caller has made sure that it is no link to elsewhere. `where` names it in messages. Cost:
/// about 40 microseconds per tensor. Errors: kIo; those of check_tensor.
FileLayout create_file(const fs::path& path, const std::string& where, const NewFile& file, std::int64_t rank);

}  // namespace reshard::format::hdf5
