#pragma once
// What went wrong, in a closed set of codes. One exception type carries every issue that a phase found, so that a user
// sees all faults of a plan at once. The codes and exit codes are the tool's public contract (README, "Exit codes").

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshard {

enum class ErrorCode {
  // usage: exit 2
  kUsage,
  kExists,
  // the plan alone: exit 3
  kSyntax,
  kDupKey,
  kSchema,
  kMeshSize,
  kAxisDup,
  kRanks,
  kMeshWorld,
  kPattern,
  kAxisUnknown,
  kAxisReused,
  kPartial,
  // plan and checkpoint: exit 4
  kRuleUnused,
  kTensorUnmatched,
  kDimRange,
  kDimDup,
  kIndivisible,
  kEmptyShard,
  kUnitSplit,
  kSegmentSum,
  kStride,
  kSeqLayout,
  kPad,
  kRepeat,
  kOwner,
  kGroupIncomplete,
  kMemberSize,
  kShape,
  kDtype,
  kRenameCollision,
  kCoverage,
  kMissing,
  kReplica,
  kOverflow,
  // files: exit 4
  kFormat,
  kUnsupported,
  kLink,
  // running: exit 5, 6, 7
  kIo,
  kTransport,
  kDevice,
  kMemory,
  // results and faults of ours: exit 1, 70, 128 + n
  kDifferent,
  kDigest,
  kInternal,
  kInterrupted,
};

enum class Exit : int {
  kDone = 0,
  kDifferent = 1,
  kUsage = 2,
  kPlan = 3,
  kCheckpoint = 4,
  kIo = 5,
  kTransport = 6,
  kMemory = 7,
  kInternal = 70,
};

/// The code as users see it: "E_INDIVISIBLE".
std::string_view code_name(ErrorCode code);

/// The inverse of code_name; kInternal for a name that is none.
ErrorCode code_from_name(std::string_view name);

/// The exit code that belongs to a code where nothing else is said.
Exit default_exit(ErrorCode code);

/// An Issue or a Warning of no tensor.
inline constexpr std::nullopt_t kNoTensor = std::nullopt;

/// One fault. `where` is a place in a file ("plan.yaml:7:5", "tensors[3]", a path); `tensor`: nothing where no tensor
/// is meant, for a name may be empty. The message says what was found, what was expected and the legal choices, and
/// repeats neither code, place nor tensor.
struct Issue {
  ErrorCode code = ErrorCode::kInternal;
  std::string where;
  std::optional<std::string> tensor;
  std::string message;

  friend bool operator==(const Issue&, const Issue&) = default;
};

/// A warning: the same shape, a code of its own ("W_FALLBACK"), never a reason to stop. A notice tells what is as it
/// should be, but may not be what was meant.
struct Warning {
  std::string code;
  std::string where;
  std::optional<std::string> tensor;
  std::string message;
  bool notice = false;

  friend bool operator==(const Warning&, const Warning&) = default;
};

/// "E_SHAPE: plan.yaml:3: tensor 'w': message", one line: control characters of names are escaped.
std::string to_line(const Issue& issue);
std::string to_line(const Warning& warning);

/// Text on one line that shows what is in it: control characters and bytes that are no UTF-8 as \n, \t, \xHH, C1
/// controls and characters that only steer how others are shown (direction, breaks, no width) as \uHHHH.
std::string escaped(std::string_view text);

/// A name as it stands in text: escaped, and in double quotes where it would be overlooked or mistaken bare: empty,
/// with a blank at either end, or beginning with such a quote.
std::string name_text(std::string_view name);

class Error : public std::exception {
 public:
  explicit Error(Issue issue);
  /// `issues` must not be empty; the exit code is that of the first.
  explicit Error(std::vector<Issue> issues);
  Error(Exit exit, std::vector<Issue> issues);

  const std::vector<Issue>& issues() const { return issues_; }
  Exit exit() const { return exit_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::vector<Issue> issues_;
  Exit exit_;
  std::string text_;
};

/// Gathers the issues of a phase; `throw_if_any` ends the phase.
class IssueList {
 public:
  void add(Issue issue) { issues_.push_back(std::move(issue)); }
  void add(const Error& error) { issues_.insert(issues_.end(), error.issues().begin(), error.issues().end()); }
  bool empty() const { return issues_.empty(); }
  const std::vector<Issue>& issues() const { return issues_; }
  void throw_if_any(Exit exit) const {
    if (!issues_.empty()) throw Error(exit, issues_);
  }

 private:
  std::vector<Issue> issues_;
};

/// Throws kInternal with the given values: a broken invariant of ours, never a fault of the input.
[[noreturn]] void internal_error(std::string message);

}  // namespace reshard
