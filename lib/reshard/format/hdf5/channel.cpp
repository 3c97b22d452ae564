#include "reshard/format/hdf5/channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace reshard::format::hdf5 {
namespace {

constexpr std::size_t kStepBytes = std::size_t{1} << 20;

}  // namespace

Channel::Channel(Channel&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

Channel::~Channel() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Channel::wait(short events, std::optional<Clock::time_point> deadline) const {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      if (left <= 0) return false;
      timeout = static_cast<int>(std::min<std::int64_t>(left, 1'000'000));
    }
    struct pollfd entry {
      descriptor_, events, 0
    };
    const int ready = ::poll(&entry, 1, timeout);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Channel::send_all(std::string_view bytes, std::optional<Clock::time_point> deadline) const {
  while (!bytes.empty()) {
    if (!wait(POLLOUT, deadline)) return false;
    const ssize_t n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool Channel::receive_all(std::span<char> bytes, std::optional<Clock::time_point> deadline) const {
  while (!bytes.empty()) {
    if (!wait(POLLIN, deadline)) return false;
    const ssize_t n = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

bool Channel::send(std::string_view first, std::string_view second, std::optional<Clock::time_point> deadline) const {
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<char>(static_cast<std::uint64_t>(first.size() + second.size()) >> 8 * i & 0xff);
  return send_all({length.data(), length.size()}, deadline) && send_all(first, deadline) && send_all(second, deadline);
}

std::optional<std::string> Channel::receive(std::int64_t limit_bytes, std::optional<Clock::time_point> deadline) const {
  std::array<char, 8> prefix{};
  if (!receive_all(prefix, deadline)) return std::nullopt;
  std::uint64_t length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) length = length << 8 | static_cast<unsigned char>(prefix[i]);
  if (length > static_cast<std::uint64_t>(limit_bytes)) return std::nullopt;
  std::string out;
  while (out.size() < length) {
    const std::size_t begin = out.size();
    out.resize(std::min<std::size_t>(length, begin + std::max(kStepBytes, begin)));
    if (!receive_all(std::span(out).subspan(begin), deadline)) return std::nullopt;
  }
  return out;
}

}  // namespace reshard::format::hdf5
