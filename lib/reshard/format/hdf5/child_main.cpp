#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/format/hdf5/catalog.hpp"
#include "reshard/format/hdf5/channel.hpp"
#include "reshard/format/hdf5/child.hpp"
#include "reshard/format/hdf5/datasets.hpp"
#include "reshard/format/hdf5/hdf5.hpp"
#include "reshard/format/hdf5/library.hpp"
#include "reshard/format/hdf5/wire.hpp"

namespace reshard::format {
namespace {

constexpr std::int64_t kRequestLimitBytes = std::int64_t{1} << 20;
constexpr rlim_t kSpareBytes = rlim_t{256} << 20;

void set_soft_limit(__rlimit_resource resource, rlim_t value) {
  struct rlimit limit {};
  if (::getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(value, limit.rlim_max);
  ::setrlimit(resource, &limit);
}

/// Address space in use, in bytes.
rlim_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// AddressSanitizer maps terabytes at the start and needs room to do so. GCC and Clang tell of it in different ways.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitsAddressSpace = false;
#elif defined(__has_feature)
constexpr bool kLimitsAddressSpace = !__has_feature(address_sanitizer);
#else
constexpr bool kLimitsAddressSpace = true;
#endif

/// Answers requests; keeps the file of the last read open.
class Server {
 public:
  /// The reply: its first byte, then its body.
  std::pair<char, std::string> answer(const hdf5::wire::Request& request) {
    try {
      set_limits(File::open_to_read(request.path).size());
      const ReadOptions options{request.allow_external, request.root};
      if (request.address.empty()) return {hdf5::wire::kOk, catalog(request, options)};
      return {hdf5::wire::kOk, read(request, options)};
    } catch (const Error& error) {
      return failed(error.issues());
    } catch (const std::bad_alloc&) {
      return failed({{ErrorCode::kFormat, request.path, kNoTensor,
                      fmt::format("needs more memory than its size and {} MiB", kSpareBytes >> 20)}});
    } catch (const std::exception& error) {
      return failed({{ErrorCode::kFormat, request.path, kNoTensor, error.what()}});
    }
  }

 private:
  static std::pair<char, std::string> failed(const std::vector<Issue>& issues) {
    return {hdf5::wire::kFailed, hdf5::wire::encode(issues)};
  }

  static std::string catalog(const hdf5::wire::Request& request, const ReadOptions& options) {
    const auto lock = hdf5::lock_library();
    return hdf5::wire::encode(hdf5::walk_file(request.path, options));
  }

  std::string read(const hdf5::wire::Request& request, const ReadOptions& options) {
    if (!file_ || path_ != request.path) {
      file_ = std::make_unique<hdf5::Datasets>(request.path, options);
      path_ = request.path;
    }
    if (request.count < 0 || request.count > hdf5::kReadBytes)
      internal_error("a read of more bytes than one request may have");
    std::string out(static_cast<std::size_t>(request.count), '\0');
    file_->read(request.address, request.first_byte, std::as_writable_bytes(std::span(out)));
    return out;
  }

  void set_limits(std::int64_t file_bytes) const {
    if (kLimitsAddressSpace) set_soft_limit(RLIMIT_AS, base_bytes_ + static_cast<rlim_t>(file_bytes) + kSpareBytes);
    struct timespec used {};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    const auto seconds = used.tv_sec + 1 + hdf5::processor_limit(file_bytes).count();
    set_soft_limit(RLIMIT_CPU, static_cast<rlim_t>(seconds));
  }

  rlim_t base_bytes_ = mapped_bytes();
  std::string path_;
  std::unique_ptr<hdf5::Datasets> file_;
};

}  // namespace

int run_hdf5_child(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != kHdf5ChildArgument) return static_cast<int>(Exit::kUsage);
  // A terminal's Ctrl-C reaches this process too: the parent decides what it means, and closes the connection.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  set_soft_limit(RLIMIT_CORE, 0);
  const hdf5::Channel channel(STDIN_FILENO);
  Server server;
  for (;;) {
    const std::optional<std::string> message = channel.receive(kRequestLimitBytes, {});
    if (!message) break;
    const std::optional<hdf5::wire::Request> request = hdf5::wire::decode_request(*message);
    if (!request) break;
    const auto [status, body] = server.answer(*request);
    if (!channel.send({&status, 1}, body, {})) break;
  }
  return 0;
}

}  // namespace reshard::format
