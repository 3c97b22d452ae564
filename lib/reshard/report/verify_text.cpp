#include <fmt/format.h>

#include "reshard/report/text.hpp"
#include "reshard/report/verify_report.hpp"

namespace reshard::report {

std::string verify_text(const pipeline::Verification& verification) {
  const auto problems = static_cast<std::int64_t>(verification.problems.size());
  std::string out =
      fmt::format("{}: {}\n", escaped(verification.directory.string()),
                  problems == 0 ? "every file and tensor is as the manifest says" : count_text(problems, "problem"));
  out += labelled("read", fmt::format("{}, {}, {}", count_text(verification.files, "file"),
                                      count_text(verification.tensors, "tensor"), bytes_text(verification.bytes)));
  for (const pipeline::TargetProblem& problem : verification.problems)
    out += to_line(Issue{problem.code, escaped(problem.file), problem.tensor,
                         fmt::format("expected {}, found {}", problem.expected, problem.found)}) +
           '\n';
  return out;
}

}  // namespace reshard::report
