#pragma once
// Files by descriptor and position. Every call does all of its bytes or throws E_IO (exit 5) that names the path, the
// offset and the system's reason; a file that is not there is E_MISSING, one that is no regular file E_FORMAT.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace reshard {

namespace fs = std::filesystem;

/// Owns one descriptor. pread and pwrite on one File are safe from several threads.
class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  /// A regular file, for reading. Opens without blocking (a FIFO does not hang) and follows links.
  static File open_to_read(const fs::path& path);
  /// Creates or truncates; never through a link (O_NOFOLLOW).
  static File create(const fs::path& path);
  /// An existing file of ours, for writing and reading; one that is not there is E_IO.
  static File open_to_write(const fs::path& path);

  /// For lines at the end of a small file, made where there is none; never through a link.
  static File open_to_append(const fs::path& path);

  /// Fills `out` from `offset`; a file that ends before is E_IO that tells both sizes.
  void read(std::int64_t offset, std::span<std::byte> out) const;
  void write(std::int64_t offset, std::span<const std::byte> bytes) const;
  /// To the end of a file that was opened to append, in one call of the system.
  void append(std::string_view text) const;
  void resize(std::int64_t bytes) const;
  /// Data and metadata on disk. An error is final: it is never retried.
  void sync() const;
  /// Asks the system to read the file from its disk again next time, not from memory. What is not yet flushed stays.
  void forget_cached() const;
  std::int64_t size() const;
  /// Closes and reports what close() says (a full disk may speak only here).
  void close();

  int descriptor() const { return descriptor_; }
  const fs::path& path() const { return path_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  File(int descriptor, fs::path path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_ = -1;
  fs::path path_;
};

/// The whole of a small text file; larger than `limit_bytes` is E_FORMAT that names both sizes.
std::string read_text(const fs::path& path, std::int64_t limit_bytes);

/// Creates `path` with this content and syncs it.
void write_text(const fs::path& path, std::string_view text);

/// Makes renames and new names in a directory durable.
void sync_directory(const fs::path& path);

/// Throws E_IO: "cannot <action>: <reason of errno>".
[[noreturn]] void io_error(const fs::path& path, std::string_view action, int error_number);

}  // namespace reshard
