#include "reshard/base/utf8.hpp"

#include <cstddef>
#include <cstdint>

namespace reshard {

bool is_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    std::size_t more = 0;
    std::uint32_t point = 0;
    std::uint32_t least = 0;
    if (lead >= 0xc2 && lead < 0xe0) {
      more = 1, point = lead & 0x1fu, least = 0x80;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      more = 2, point = lead & 0x0fu, least = 0x800;
    } else if (lead >= 0xf0 && lead < 0xf5) {
      more = 3, point = lead & 0x07u, least = 0x10000;
    } else {
      return false;
    }
    if (text.size() - i < more) return false;
    for (; more > 0; --more, ++i) {
      const auto next = static_cast<unsigned char>(text[i]);
      if ((next & 0xc0u) != 0x80u) return false;
      point = point << 6 | (next & 0x3fu);
    }
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
  }
  return true;
}

}  // namespace reshard
