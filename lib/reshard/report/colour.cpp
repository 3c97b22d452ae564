#include "reshard/report/colour.hpp"

#include <algorithm>

#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kPlain = "\x1b[0m";

std::string painted(std::string_view colour, std::string_view text) {
  return std::string(colour).append(text).append(kPlain);
}

std::string line_coloured(std::string_view line, bool in_head) {
  if (line.empty()) return "";
  if (line.starts_with("warning: ")) return painted(kYellow, line);
  if (line.starts_with("notice: ")) return painted(kDim, line);
  if (line[0] != ' ') return painted(kBold, line);
  if (!in_head || line.size() < kLabelColumns || line[2] == ' ') return std::string(line);
  return painted(kDim, line.substr(0, kLabelColumns)).append(line.substr(kLabelColumns));
}

}  // namespace

std::string coloured(std::string_view text) {
  std::string out;
  bool in_head = true;  // up to the first empty line
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    in_head = in_head && !line.empty();
    out += line_coloured(line, in_head);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace reshard::report
