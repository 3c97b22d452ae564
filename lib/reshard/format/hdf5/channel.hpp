#pragma once
// Whole messages over one end of a socket pair: 8 bytes length, then the bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reshard::format::hdf5 {

/// Owns one end.
class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  Channel() = default;
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  /// False where the other side is gone or the deadline has passed. A message may be given in two parts.
  bool send(std::string_view first, std::string_view second, std::optional<Clock::time_point> deadline) const;

  /// Nothing where the other side is gone, the deadline has passed or the message is longer than `limit_bytes`. Memory
  /// grows with the bytes that have come, not with the length that was announced.
  std::optional<std::string> receive(std::int64_t limit_bytes, std::optional<Clock::time_point> deadline) const;

 private:
  bool wait(short events, std::optional<Clock::time_point> deadline) const;
  bool send_all(std::string_view bytes, std::optional<Clock::time_point> deadline) const;
  bool receive_all(std::span<char> bytes, std::optional<Clock::time_point> deadline) const;

  int descriptor_ = -1;
};

}  // namespace reshard::format::hdf5
