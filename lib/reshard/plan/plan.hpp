#pragma once
// ParallelPlan: what the user wrote, read and checked on its own (plan format, version 1). Defaults are resolved and side
// overrides merged, so that whoever uses a rule looks at exactly one source and one target placement.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/value.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/plan/pattern.hpp"

namespace reshard::plan {

struct View {
  std::string name;
  layout::Mesh mesh;
};

/// Section 3.
struct Side {
  layout::Mesh mesh;
  bool axes_given = false;  ///< false: `axes` was left out (one rank, or a source manifest's mesh)
  std::vector<View> views;
  std::optional<std::string> format;
  std::optional<std::string> files;  ///< template, checked (fields, no absolute path, no `..`)
  std::optional<std::int64_t> max_file_size_bytes;
  std::optional<std::string> path;

  /// The mesh of a view; `axes` where the side does not define it or `view` is empty.
  const layout::Mesh& mesh_of(std::string_view view) const;
};

/// The cut of one dim. `dim` is as written: an integer (negative from the end) or, in a group, a dim name.
struct DimRule {
  std::string dim;
  layout::DimCut cut;  ///< axis sizes bound to the side's mesh
};

/// A tensor that exists only on some coordinates of an axis.
struct OwnerRule {
  std::string axis;
  layout::Index axis_size = 1;
  std::optional<std::size_t> capture;  ///< $i that holds the number; else `indices`
  std::vector<layout::Index> indices;
  layout::Index count = 0;
  std::vector<layout::Index> split;  ///< numbers per coordinate; empty: equal shares
  bool local_numbering = false;
};

/// One token of a member's dims: a dim name with its divisor, or "." (empty name: never cut).
struct MemberDim {
  std::string name;
  layout::Index divisor = 1;
};

struct Member {
  std::string suffix;
  bool may_be_absent = false;
  std::vector<MemberDim> dims;
};

/// What a rule says of one side.
struct Placement {
  std::vector<DimRule> shard;
  std::string view;  ///< empty: `axes`
  std::vector<OwnerRule> owners;
  std::vector<Member> members;  ///< not empty: the rule is a group and matches prefixes
};

/// Section 4.
struct Rule {
  std::size_t number = 0;  ///< from 0
  Position position;
  NamePattern match;
  Placement source;
  Placement target;
  std::optional<std::string> rename;
  std::optional<Dtype> dtype;
  bool optional = false;
  bool drop = false;
};

enum class Unmatched { kError, kReplicate, kDrop };

struct ParallelPlan {
  Side source;
  Side target;
  std::vector<Rule> rules;
  Unmatched unmatched = Unmatched::kError;
  /// The resolved plan as one canonical value: variables replaced, command-line changes in it, paths left out. Its canonical_json
  /// goes into the plan digest; two plans that differ only in notation are equal here.
  Value canonical;
  std::string name;  ///< for messages: the file's name
};

/// What the command line changes in a plan.
struct PlanOptions {
  std::vector<std::pair<std::string, std::int64_t>> variables;  ///< --set
  bool allow_extra = false;
  bool allow_missing = false;
  std::optional<std::string> target_format;
};

enum class Notation { kYaml, kJson };

/// By file name: `.json` is JSON, everything else YAML.
Notation notation_of(std::string_view file_name);

/// Reads and checks a plan on its own. All faults found are reported in one Error with exit 3; each has `name:line:column`
/// or `tensors[i]` as its place.
ParallelPlan read_plan(std::string_view text, Notation notation, std::string_view name, const PlanOptions& options = {});

}  // namespace reshard::plan
