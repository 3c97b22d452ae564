#pragma once
// CRC-64/XZ over pieces in any order (ISA-L computes the bytes; the joins are here).
//
// The digest of a tensor is the CRC-64/XZ of its bytes in logical row-major order, whatever files they lie in. It is
// linear: with the raw register (no initial and final complement) the digest of a whole is the XOR of its pieces, each
// shifted by the bytes that follow it. So a reader that saw the pieces in any order and cut can state the digest of the
// whole. CRC-64/XZ: polynomial 42F0E1EBA9EA3693, reflected, start and final XOR all ones; "123456789" gives
// 995dc9bbdf1939fa.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace reshard::crc64 {

/// Raw register after `bytes`, starting from `seed`; raw(0, {}) = 0 and leading zero bytes leave 0 as it is.
std::uint64_t raw(std::uint64_t seed, std::span<const std::byte> bytes);

/// raw(0, piece followed by `bytes` zero bytes), given raw(0, piece): multiplication by x^(8 * bytes).
std::uint64_t shift(std::uint64_t register_value, std::int64_t bytes);

/// A shift by a constant distance, prepared once: about 5 ns each where the processor multiplies without carry.
class Shift {
 public:
  Shift() = default;
  explicit Shift(std::int64_t bytes);
  std::uint64_t operator()(std::uint64_t register_value) const;

 private:
  std::uint64_t factor_ = std::uint64_t{1} << 63;  // the polynomial 1
};

/// CRC-64/XZ of a whole of `bytes` bytes from the XOR of its shifted raw pieces.
std::uint64_t finish(std::uint64_t register_value, std::int64_t bytes);

/// The inverse of finish: raw(0, piece) of a piece of `bytes` bytes from its CRC-64/XZ.
std::uint64_t unfinish(std::uint64_t digest, std::int64_t bytes);

/// CRC-64/XZ of one piece of memory.
std::uint64_t digest(std::span<const std::byte> bytes);

/// 16 lower-case hex digits.
std::string to_hex(std::uint64_t digest);

}  // namespace reshard::crc64
