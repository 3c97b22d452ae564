#pragma once
// Sizes in bytes as plans and the command line write them: `5GiB`, `100KiB`, `512MB`, `4096`.

#include <cstdint>
#include <optional>
#include <string_view>

namespace reshard::plan {

/// For messages: what parse_size reads.
inline constexpr std::string_view kSizeForms =
    "bytes as a whole number, alone or with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024), "
    "as in 5GiB";

/// Nothing for any other text and for sizes beyond 63 bits.
std::optional<std::int64_t> parse_size(std::string_view text);

}  // namespace reshard::plan
