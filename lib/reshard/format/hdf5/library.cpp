#include "reshard/format/hdf5/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace reshard::format::hdf5 {
namespace {

herr_t take_first(unsigned, const H5E_error2_t* error, void* out) {
  if (error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
  return 1;
}

/// What the failed call of the library says innermost: "file read failed: time = ..., errno = 5, ..., buf = 0x..."
/// where a system call has failed.
std::string innermost_description() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  return text;
}

/// The reason why a system call failed, 0 where none did. A damaged file can ask for a file or a place that is not
/// there.
int system_error(std::string_view description) {
  static constexpr std::string_view kMark = "errno = ";
  const std::size_t mark = description.find(kMark);
  if (mark == std::string_view::npos) return 0;
  int reason = 0;
  std::from_chars(description.data() + mark + kMark.size(), description.data() + description.size(), reason);
  return reason == ENOENT || reason == EINVAL ? 0 : reason;
}

}  // namespace

std::unique_lock<std::mutex> lock_library() {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  // At exit the library closes what it has open, and crashes where a write has failed: everything of ours is closed.
  static const bool is_ready = H5dont_atexit() >= 0 && H5open() >= 0 && H5PLset_loading_state(0) >= 0 &&
                               H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  if (!is_ready) internal_error("the HDF5 library cannot be initialised");
  return lock;
}

std::string innermost_error() {
  std::string text = innermost_description();
  const int reason = system_error(text);
  text.resize(std::min({text.size(), text.find(": time = "), text.find(", errno = ")}));
  if (reason != 0) text += fmt::format(": {}", std::strerror(reason));
  if (text.starts_with("bad version number"))
    text += fmt::format(": written by an HDF5 newer than {}.{}.{}?", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  return text.empty() ? "the HDF5 library gives no reason" : text;
}

void library_error(ErrorCode code, std::string_view where, std::optional<std::string_view> tensor,
                   std::string_view action) {
  if (system_error(innermost_description()) != 0) code = ErrorCode::kIo;
  throw Error(Issue{code, std::string(where), std::optional<std::string>(tensor),
                    fmt::format("cannot {}: {}", action, innermost_error())});
}

Handle file_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (!access || H5Pset_file_locking(access.get(), 0, 1) < 0 ||
      H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG) < 0 ||
      H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110) < 0 ||
      H5Pset_alignment(access.get(), 64 * 1024, 4096) < 0)
    internal_error("HDF5 file access properties: " + innermost_error());
  return access;
}

Handle open_file(const std::string& path, std::string_view where) {
  // Every call of the library empties the error stack, closing a property list too: the list must outlive the message.
  const Handle access = file_access();
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file) library_error(ErrorCode::kFormat, where, kNoTensor, "open it as HDF5");
  return file;
}

}  // namespace reshard::format::hdf5
