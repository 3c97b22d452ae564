#include "reshard/report/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace reshard::report {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kLabelWidth = kLabelColumns - kIndent;

/// Columns that a text takes: its code points (names are UTF-8 where they are not ASCII).
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// Appends `text`, breaking at blanks; the cursor is at column `column`, further lines begin at column `indent`.
void append_wrapped(std::string& out, std::string_view text, std::size_t column, std::size_t indent) {
  bool first_on_line = true;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const std::size_t width = width_of(word);
    if (!first_on_line && column + 1 + width > kColumns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
      first_on_line = true;
    }
    if (!first_on_line) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
    first_on_line = false;
  }
  out += '\n';
}

std::string without_trailing_zeros(std::string text) {
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.995 and more would be shown as 1024.00.
  for (; value >= 1023.995 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return without_trailing_zeros(fmt::format("{:.2f}", value)) + " " + kUnits[unit];
}

std::string seconds_text(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 1e-3) return "<1 ms";
  // 999.5 ms and more would be shown as 1000 ms, 59.95 s as 60.0 s, 3599.5 s as 60 min 0 s.
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  const auto minutes = std::llround(seconds / 60);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string count_text(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string names_text(const std::vector<std::string>& names, std::size_t limit) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), limit); ++i) out += (i == 0 ? "" : ", ") + escaped(names[i]);
  if (names.size() > limit) out += fmt::format(" and {} more", names.size() - limit);
  return out;
}

std::string labelled(std::string_view label, std::string_view text) {
  std::string out = fmt::format("{:{}}{:{}}", "", kIndent, label, kLabelWidth);
  append_wrapped(out, text, kIndent + kLabelWidth, kIndent + kLabelWidth);
  return out;
}

std::string paragraph(std::string_view text) {
  std::string out(kIndent, ' ');
  append_wrapped(out, text, kIndent, kIndent);
  return out;
}

std::vector<std::string> warning_lines(const std::vector<Warning>& warnings) {
  std::vector<std::string> out;
  for (const Warning& warning : warnings) out.push_back((warning.notice ? "notice: " : "warning: ") + to_line(warning));
  return out;
}

std::string warnings_text(const std::vector<Warning>& warnings) {
  std::string out;
  for (const std::string& line : warning_lines(warnings)) append_wrapped(out, line, 0, kIndent);
  return out;
}

std::string Table::text() const {
  std::vector<std::size_t> widths(align_.size(), 0);
  for (const std::vector<std::string>& row : rows_)
    for (std::size_t c = 1; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::size_t others = kIndent;
  for (std::size_t c = 1; c < widths.size(); ++c) others += gap_ + widths[c];
  // The widest first cell that leaves room for the others; wider ones stand alone on their line.
  const std::size_t room = others < kColumns ? kColumns - others : 0;
  for (const std::vector<std::string>& row : rows_)
    if (width_of(row[0]) <= room) widths[0] = std::max(widths[0], width_of(row[0]));

  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    std::string line(kIndent, ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::size_t width = width_of(row[c]);
      if (c == 0 && width > widths[0]) {
        out += line + row[0] + '\n';
        line.append(widths[0], ' ');
        continue;
      }
      if (c > 0) line.append(gap_, ' ');
      const std::string blanks(widths[c] - width, ' ');
      line += align_[c] == Align::kRight ? blanks + row[c] : row[c] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace reshard::report
