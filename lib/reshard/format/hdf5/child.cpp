#include "reshard/format/hdf5/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "reshard/format/hdf5/hdf5.hpp"

namespace reshard::format::hdf5 {
namespace {

/// posix_spawn's lists, which must be destroyed.
class SpawnSetup {
 public:
  explicit SpawnSetup(int channel) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, channel, STDIN_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Our environment without the variables that steer the library.
std::vector<char*> child_environment() {
  std::vector<char*> out;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "HDF5_", 5) != 0) out.push_back(*entry);
  out.push_back(nullptr);
  return out;
}

wire::Request request_for(const fs::path& path, const ReadOptions& options) {
  wire::Request out;
  out.path = fs::absolute(path).string();
  out.root = options.root.empty() ? "" : fs::absolute(options.root).string();
  out.allow_external = options.allow_external;
  return out;
}

}  // namespace

Child::Child(fs::path binary, std::optional<std::chrono::milliseconds> patience)
    : binary_(std::move(binary)), patience_(patience) {}

Child::~Child() {
  stop();
}

void Child::start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    io_error(binary_, "start the HDF5 child", errno);
  channel_ = Channel(ends[0]);
  const Channel theirs(ends[1]);
  const SpawnSetup setup(ends[1]);
  std::string binary = binary_.string();
  std::string argument(kHdf5ChildArgument);
  std::array<char*, 3> arguments = {binary.data(), argument.data(), nullptr};
  std::vector<char*> environment = child_environment();
  const int reason =
      ::posix_spawn(&pid_, binary.c_str(), setup.actions(), setup.attributes(), arguments.data(), environment.data());
  if (reason == 0) return;
  pid_ = -1;
  channel_ = Channel();
  io_error(binary_, "start the HDF5 child", reason);
}

std::string Child::stop() {
  channel_ = Channel();
  if (pid_ < 0) return {};
  const pid_t pid = std::exchange(pid_, -1);
  // A child that broke off the connection is about to end by itself and tells why; any other is told to end.
  int status = 0;
  pid_t ended = 0;
  for (auto pause = std::chrono::microseconds(200); pause.count() < 200'000; pause *= 2) {
    ended = ::waitpid(pid, &status, WNOHANG);
    if (ended != 0) break;
    std::this_thread::sleep_for(pause);
  }
  if (ended == 0) {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return "it does not come to an end";
  }
  if (ended < 0) return "its end cannot be learned";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return "it does not come to an end";
  if (WIFSIGNALED(status))
    return fmt::format("it ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("it ended with code {} without a sensible answer", WEXITSTATUS(status));
}

void Child::fail(const fs::path& path) {
  throw Error(Issue{ErrorCode::kFormat, path.string(), kNoTensor,
                    fmt::format("the HDF5 library cannot cope with this file, which is probably damaged: {}", stop())});
}

std::string Child::ask(const fs::path& path, const wire::Request& request, std::int64_t limit_bytes,
                       std::int64_t file_bytes) {
  if (pid_ < 0) start();
  const auto deadline =
      Channel::Clock::now() + patience_.value_or(std::chrono::minutes(1) + 4 * processor_limit(file_bytes));
  if (!channel_.send(wire::encode(request), {}, deadline)) fail(path);
  std::optional<std::string> reply = channel_.receive(limit_bytes, deadline);
  if (!reply || reply->empty()) fail(path);
  const char status = reply->front();
  reply->erase(0, 1);
  if (status == wire::kOk) return std::move(*reply);
  std::optional<std::vector<Issue>> issues = wire::decode_issues(*reply);
  if (status != wire::kFailed || !issues) fail(path);
  // The child was given an absolute path; the user knows the one they gave.
  for (Issue& issue : *issues)
    if (issue.where == request.path) issue.where = path.string();
  throw Error(std::move(*issues));
}

FileCatalog Child::catalog(const fs::path& path, const ReadOptions& options) {
  const std::int64_t file_bytes = File::open_to_read(path).size();
  const wire::Request request = request_for(path, options);
  const std::int64_t limit_bytes = (std::int64_t{64} << 20) + 8 * file_bytes;
  std::optional<FileCatalog> catalog = wire::decode_catalog(ask(path, request, limit_bytes, file_bytes));
  if (!catalog || catalog->bytes != file_bytes) fail(path);
  for (Refusal& refusal : catalog->refusals)
    if (refusal.issue.where == request.path) refusal.issue.where = path.string();
  return std::move(*catalog);
}

void Child::read(const fs::path& path, const ReadOptions& options, const std::string& address, std::int64_t first_byte,
                 std::span<std::byte> out) {
  wire::Request request = request_for(path, options);
  request.address = address;
  const std::int64_t file_bytes = File::open_to_read(path).size();
  while (!out.empty()) {
    request.first_byte = first_byte;
    request.count = std::min(std::ssize(out), static_cast<std::ptrdiff_t>(kReadBytes));
    const std::string bytes = ask(path, request, (std::int64_t{1} << 20) + request.count, file_bytes);
    if (std::ssize(bytes) != request.count) fail(path);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    out = out.subspan(bytes.size());
    first_byte += request.count;
  }
}

}  // namespace reshard::format::hdf5
