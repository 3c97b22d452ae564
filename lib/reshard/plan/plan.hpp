#pragma once
// ParallelPlan: what the user wrote, read and checked on its own (plan format, version 1). Defaults are resolved and
// side overrides merged, so that whoever uses a rule looks at exactly one source and one target placement.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/base/value.hpp"
#include "reshard/plan/document.hpp"
#include "reshard/plan/rule.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::plan {

enum class Unmatched { kError, kReplicate, kDrop };

struct ParallelPlan {
  Side source;
  Side target;
  std::vector<Rule> rules;
  Unmatched unmatched = Unmatched::kError;
  /// The resolved plan as one canonical value: variables replaced, command-line changes in it, paths left out. Its
  /// canonical_json goes into the plan digest; two plans that differ only in notation are equal here.
  Value canonical;
  std::string name;  ///< for messages: the file's name
};

/// What the command line, and a source's manifest, change in a plan.
struct PlanOptions {
  std::vector<std::pair<std::string, std::int64_t>> variables;  ///< --set
  bool allow_extra = false;
  bool allow_missing = false;
  std::optional<std::string> target_format;
  /// Mesh and views that a source manifest supplies, used where the plan's source leaves them out.
  std::optional<Side> manifest_source;
};

/// Reads and checks a plan on its own. All faults found are reported in one Error with exit 3; each has
/// `name:line:column` or the option of the command line as its place, and the keys that lead to it in its message.
ParallelPlan read_plan(std::string_view text, Notation notation, std::string_view name,
                       const PlanOptions& options = {});

/// The `path` of one side: the source's tells whether there is a manifest to read the plan with, both where no report
/// may go. Nothing where there is none, or where the plan is so wrong that read_plan will say why.
std::optional<std::string> read_path(Role side, std::string_view text, Notation notation, std::string_view name,
                                     const PlanOptions& options = {});

}  // namespace reshard::plan
