#pragma once
// The HDF5 library as a whole: it is not thread-safe, keeps an error stack, and loads plugins unless told not to.

#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>

#include "reshard/base/error.hpp"
#include "reshard/format/hdf5/handle.hpp"

namespace reshard::format::hdf5 {

/// Every call of the library in this process happens under this lock. The first one switches plugins and the printing
/// of errors off.
[[nodiscard]] std::unique_lock<std::mutex> lock_library();

/// The innermost line of the error stack, without what differs from run to run (times, addresses).
std::string innermost_error();

/// Throws "cannot <action>: <innermost line>"; with kIo in place of the code where a system call has failed.
[[noreturn]] void library_error(ErrorCode code, std::string_view where, std::optional<std::string_view> tensor,
                                std::string_view action);

/// Access to files: no locks (they fail on network file systems, and files are either ours alone or read only), format
/// bounds V110, contiguous data of 64 KiB and more aligned to 4096.
Handle file_access();

/// Opens to read; `where` names it in messages. Errors: kFormat.
Handle open_file(const std::string& path, std::string_view where);

}  // namespace reshard::format::hdf5
