#include "reshard/plan/size.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace reshard::plan {
namespace {

constexpr std::int64_t kKilo = 1000;
constexpr std::int64_t kKibi = 1024;
constexpr std::array<std::pair<std::string_view, std::int64_t>, 10> kUnits = {{
    {"", 1},
    {"B", 1},
    {"KB", kKilo},
    {"MB", kKilo* kKilo},
    {"GB", kKilo* kKilo* kKilo},
    {"TB", kKilo* kKilo* kKilo* kKilo},
    {"KiB", kKibi},
    {"MiB", kKibi* kKibi},
    {"GiB", kKibi* kKibi* kKibi},
    {"TiB", kKibi* kKibi* kKibi* kKibi},
}};

}  // namespace

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || text.front() == '-') return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, bytes] : kUnits) {
    std::int64_t size = 0;
    if (unit == name && !__builtin_mul_overflow(number, bytes, &size)) return size;
  }
  return std::nullopt;
}

}  // namespace reshard::plan
