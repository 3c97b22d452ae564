#pragma once
// Lines for people: sizes, counts, columns, paragraphs within 80 columns.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"

namespace reshard::report {

inline constexpr std::size_t kColumns = 80;
inline constexpr std::size_t kLabelColumns = 13;  ///< what `labelled` puts before its text

/// "512 B", "1.5 KiB", "14.96 GiB".
std::string bytes_text(std::int64_t bytes);
/// "<1 ms", "12 ms", "16.2 s", "5 min 10 s", "2 h 5 min".
std::string seconds_text(double seconds);
/// "1 tensor", "32 tensors".
std::string count_text(std::int64_t count, std::string_view noun);
/// "[14336, 4096]"
std::string shape_text(const Shape& shape);
/// "a, b, c and 4 more" of at most `limit` names.
std::string names_text(const std::vector<std::string>& names, std::size_t limit);

/// "  label      text", broken at blanks where it passes kColumns, further lines under the first word of the text. A
/// word that does not fit is broken at commas.
std::string labelled(std::string_view label, std::string_view text);
/// A paragraph indented by two columns.
std::string paragraph(std::string_view text);
/// A paragraph whose further lines are indented by two columns.
std::string wrapped(std::string_view text);
/// The text in lines of at most so many columns, without a newline behind the last.
std::string folded_text(std::string_view text, std::size_t columns);
/// A report for a terminal: its lines that pass kColumns, but for indented ones, as such paragraphs.
std::string wrapped_lines(std::string_view text);
/// "warning: W_FALLBACK: ..." or "notice: ..." for each, however long.
std::vector<std::string> warning_lines(const std::vector<Warning>& warnings);
/// The same as paragraphs within kColumns.
std::string warnings_text(const std::vector<Warning>& warnings);

/// Rows of cells under each other, `gap` columns apart and indented by two, within kColumns: cells aligned left are
/// folded at blanks, a first cell that leaves the others no room has a line of its own, and where even that does not
/// do, the cells of a row follow each other from line to line.
class Table {
 public:
  enum class Align { kLeft, kRight };

  explicit Table(std::vector<Align> align, std::size_t gap = 2) : align_(std::move(align)), gap_(gap) {}
  /// One cell per column.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  /// What each column takes.
  std::vector<std::size_t> widths() const;
  /// What a line of them takes.
  std::size_t total_of(const std::vector<std::size_t>& widths) const;
  std::string row_text(const std::vector<std::string>& row, const std::vector<std::size_t>& widths) const;
  std::string flowing_text(const std::vector<std::string>& row) const;

  std::vector<Align> align_;
  std::size_t gap_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace reshard::report
