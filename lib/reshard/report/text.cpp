#include "reshard/report/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace reshard::report {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kShortFirst = 16;  // first cells of a table that always have room beside the others
constexpr std::size_t kLabelWidth = kLabelColumns - kIndent;

/// Columns that a text takes: its code points (names are UTF-8 where they are not ASCII).
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// What stays together in a line: text up to a blank, or, where that is too long, up to a comma.
struct Word {
  std::string_view text;
  bool after_blank = false;
};

/// The pieces of a word of more than so many columns that end at its commas.
void add_word(std::string_view word, bool after_blank, std::size_t columns, std::vector<Word>& out) {
  while (width_of(word) > columns) {
    // Behind the last comma that fits, or the first where none does.
    std::size_t end = 0;
    for (std::size_t next = 0; (next = word.find(',', end) + 1) != 0 && next < word.size(); end = next)
      if (end != 0 && width_of(word.substr(0, next)) > columns) break;
    if (end == 0) break;
    out.push_back({word.substr(0, end), after_blank});
    word.remove_prefix(end);
    after_blank = false;
  }
  out.push_back({word, after_blank});
}

/// Blanks that follow each other are part of a name: lines are not broken there.
std::vector<Word> words_of(std::string_view text, std::size_t columns) {
  std::vector<Word> out;
  std::size_t begin = 0;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != ' ' || text[i - 1] == ' ' || text[i + 1] == ' ') continue;
    add_word(text.substr(begin, i - begin), begin != 0, columns, out);
    begin = i + 1;
  }
  add_word(text.substr(begin), begin != 0, columns, out);
  return out;
}

/// Lines of at most `columns`, the first of at most `first`; a word that is wider has a line of its own.
std::vector<std::string> folded(std::string_view text, std::size_t first, std::size_t columns) {
  std::vector<std::string> out = {""};
  std::size_t used = 0;
  for (const Word& word : words_of(text, columns)) {
    const std::size_t blank = used > 0 && word.after_blank ? 1 : 0;
    const std::size_t width = width_of(word.text);
    const std::size_t room = out.size() == 1 ? first : columns;
    if (used + blank + width > room && (used > 0 || room < columns)) {
      out.emplace_back();
      used = 0;
    } else if (blank != 0) {
      out.back() += ' ';
      ++used;
    }
    out.back() += word.text;
    used += width;
  }
  return out;
}

/// Appends `text` at column `column`; further lines begin at column `indent`, or before it where that makes them fit.
void append_wrapped(std::string& out, std::string_view text, std::size_t column, std::size_t indent) {
  const std::vector<std::string> lines = folded(text, kColumns - column, kColumns - indent);
  for (std::size_t l = 0; l < lines.size(); ++l) {
    const std::size_t width = width_of(lines[l]);
    if (l == 0 && (column <= kIndent || column + width <= kColumns)) {
      out += lines[l] + '\n';
      continue;
    }
    if (l == 0) out.replace(out.find_last_not_of(' ') + 1, std::string::npos, "\n");
    const std::size_t most = width < kColumns ? kColumns - width : 0;
    out += std::string(std::min(indent, std::max(most, kIndent)), ' ') + lines[l] + '\n';
  }
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
  for (std::size_t i = 0; i < std::min(names.size(), limit); ++i) out += (i == 0 ? "" : ", ") + name_text(names[i]);
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

std::string wrapped(std::string_view text) {
  std::string out;
  append_wrapped(out, text, 0, kIndent);
  return out;
}

std::string folded_text(std::string_view text, std::size_t columns) {
  return fmt::format("{}", fmt::join(folded(text, columns, columns), "\n"));
}

std::string wrapped_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    out += width_of(line) > kColumns && !line.starts_with(' ') ? wrapped(line) : std::string(line) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> out(align_.size(), 0);
  std::vector<std::size_t> least(align_.size(), 0);  // of the widest word, where a cell may be folded
  std::size_t first = 0;
  for (const std::vector<std::string>& row : rows_) {
    first = std::max(first, width_of(row[0]));
    for (std::size_t c = 1; c < row.size(); ++c) {
      out[c] = std::max(out[c], width_of(row[c]));
      if (align_[c] == Align::kRight)
        least[c] = out[c];
      else
        for (const Word& word : words_of(row[c], kColumns)) least[c] = std::max(least[c], width_of(word.text));
    }
  }
  const std::size_t kept = first <= kShortFirst ? first : 0;
  for (std::size_t total = total_of(out) + kept; total > kColumns; --total) {
    std::size_t widest = 0;
    for (std::size_t c = 1; c < out.size(); ++c)
      if (out[c] > least[c] && (widest == 0 || out[c] > out[widest])) widest = c;
    if (widest == 0) break;
    --out[widest];
  }
  // Folded cells seldom take all of it.
  for (std::size_t c = 1; c < out.size(); ++c) {
    if (align_[c] == Align::kRight) continue;
    std::size_t taken = 0;
    for (const std::vector<std::string>& row : rows_)
      for (const std::string& line : folded(row[c], out[c], out[c])) taken = std::max(taken, width_of(line));
    out[c] = taken;
  }
  // The widest first cell that leaves room for the others; wider ones stand alone on their line.
  const std::size_t others = total_of(out);
  for (const std::vector<std::string>& row : rows_)
    if (others + width_of(row[0]) <= kColumns) out[0] = std::max(out[0], width_of(row[0]));
  return out;
}

std::size_t Table::total_of(const std::vector<std::size_t>& widths) const {
  return std::accumulate(widths.begin(), widths.end(), kIndent + gap_ * (widths.size() - 1));
}

std::string Table::text() const {
  const std::vector<std::size_t> columns = widths();
  std::string out;
  for (const std::vector<std::string>& row : rows_)
    out += total_of(columns) <= kColumns ? row_text(row, columns) : flowing_text(row);
  return out;
}

std::string Table::row_text(const std::vector<std::string>& row, const std::vector<std::size_t>& widths) const {
  std::string out;
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t c = 0; c < row.size(); ++c) {
    const bool folds = c > 0 && align_[c] == Align::kLeft;
    cells.push_back(folds ? folded(row[c], widths[c], widths[c]) : std::vector{row[c]});
    height = std::max(height, cells.back().size());
  }
  if (width_of(row[0]) > widths[0]) {
    out += paragraph(row[0]);
    cells[0] = {""};
  }
  for (std::size_t l = 0; l < height; ++l) {
    std::string line(kIndent, ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string cell = l < cells[c].size() ? cells[c][l] : "";
      if (c > 0) line.append(gap_, ' ');
      const std::string blanks(widths[c] - width_of(cell), ' ');
      line += align_[c] == Align::kRight ? blanks + cell : cell + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string Table::flowing_text(const std::vector<std::string>& row) const {
  std::string out;
  std::string line(kIndent, ' ');
  const auto end_line = [&] {
    if (line.find_first_not_of(' ') != std::string::npos) append_wrapped(out, line, 0, 3 * kIndent);
    line.assign(2 * kIndent, ' ');
  };
  for (const std::string& cell : row) {
    if (cell.empty()) continue;
    const bool begins = line.find_first_not_of(' ') == std::string::npos;
    if (!begins && width_of(line) + gap_ + width_of(cell) > kColumns) end_line();
    if (line.find_first_not_of(' ') != std::string::npos) line.append(gap_, ' ');
    line += cell;
  }
  end_line();
  return out;
}

}  // namespace reshard::report
