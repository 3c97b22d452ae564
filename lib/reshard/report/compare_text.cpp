#include <fmt/format.h>

#include "reshard/report/compare_report.hpp"
#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

std::string line_of(const std::string& tensor, std::string message) {
  return to_line(Issue{ErrorCode::kDifferent, "", tensor, std::move(message)}) + '\n';
}

}  // namespace

std::string compare_text(const pipeline::CompareResult& result) {
  std::string out = fmt::format("A {}, B {}: {}", escaped(result.a.string()), escaped(result.b.string()),
                                count_text(result.equal, "equal tensor"));
  if (result.same()) return out + ", no difference\n";
  std::size_t different = 0;  // a tensor may differ in dtype and shape
  for (std::size_t i = 0; i < result.different.size(); ++i)
    if (i == 0 || result.different[i].tensor != result.different[i - 1].tensor) ++different;
  out += fmt::format(", {} different, {} only in A, {} only in B\n", different, result.only_in_a.size(),
                     result.only_in_b.size());
  for (const std::string& tensor : result.only_in_a) out += line_of(tensor, "only in A");
  for (const std::string& tensor : result.only_in_b) out += line_of(tensor, "only in B");
  for (const pipeline::TensorDifference& difference : result.different)
    out +=
        line_of(difference.tensor, fmt::format("{}{}: A has {} ({}), B has {} ({})", name(difference.what),
                                               difference.at ? " at " + shape_text(*difference.at) : "", difference.a,
                                               escaped(difference.file_a), difference.b, escaped(difference.file_b)));
  return out;
}

}  // namespace reshard::report
