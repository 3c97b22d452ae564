#pragma once
// Where a dataset's bytes are, and whether all of them were ever written.

#include <hdf5.h>

#include <cstdint>
#include <optional>

namespace reshard::format::hdf5 {

/// The address of a contiguous dataset; nothing for data that only the library can read, and for none. `file_bytes` is
/// the size of the file that holds the dataset. Not for external and virtual storage. Errors without place: kFormat for
/// data that were never written, lie outside the file, or are declared beyond all proportion to what is stored;
/// kUnsupported for filters.
std::optional<std::int64_t> check_storage(hid_t dataset, std::int64_t file_bytes);

/// Bytes of all elements, 0 for none. Errors without place: kFormat beyond 63 bits.
std::int64_t declared_bytes(hid_t dataset);

}  // namespace reshard::format::hdf5
