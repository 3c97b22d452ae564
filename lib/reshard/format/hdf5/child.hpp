#pragma once
// The parent's side of the child process in which the HDF5 library sees files from elsewhere.
//
// The child is our own binary, started with posix_spawn (safe under MPI: nothing of the launcher's state is forked, no
// descriptor is inherited) and talked to over a socket pair on its standard input. It limits its own address space
// (what it has at its start + the file's size + 256 MiB) and processor time, writes no core, loads no plugin, and sees
// no HDF5_* variable. It serves one request after another and ends when the parent closes the connection.
//
// A crash, a broken limit, silence beyond the time limit or an answer that makes no sense is kFormat naming the file;
// the next request starts a new child (a few milliseconds).

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "reshard/format/format.hpp"
#include "reshard/format/hdf5/channel.hpp"
#include "reshard/format/hdf5/wire.hpp"

namespace reshard::format::hdf5 {

/// Processor time a request may take, which the child sets itself. A catalog takes 50 microseconds per dataset, that is
/// a third of a second for 2 MiB of nothing but small datasets.
constexpr std::chrono::seconds processor_limit(std::int64_t file_bytes) {
  return std::chrono::seconds(10 + std::min<std::int64_t>(file_bytes >> 21, 600));
}

/// Most bytes that one request reads.
constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;

/// Not safe from several threads.
class Child {
 public:
  /// `patience`: how long a request may take in all; absent: a minute and four times its processor time limit.
  explicit Child(fs::path binary, std::optional<std::chrono::milliseconds> patience = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// As walk_file.
  FileCatalog catalog(const fs::path& path, const ReadOptions& options);
  /// As Datasets::read.
  void read(const fs::path& path, const ReadOptions& options, const std::string& address, std::int64_t first_byte,
            std::span<std::byte> out);

 private:
  /// The body of a good reply. Throws what the child reports.
  std::string ask(const fs::path& path, const wire::Request& request, std::int64_t limit_bytes,
                  std::int64_t file_bytes);
  void start();
  /// Ends the child; says how it ended, if it did so by itself.
  std::string stop();
  [[noreturn]] void fail(const fs::path& path);

  fs::path binary_;
  std::optional<std::chrono::milliseconds> patience_;
  pid_t pid_ = -1;
  Channel channel_;
};

}  // namespace reshard::format::hdf5
