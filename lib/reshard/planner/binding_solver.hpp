#pragma once
// The layouts of a unit: one tensor, or the tensors of one group. Units of one rule that are stored alike and live on
// the same coordinates have one solution, found once.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshard/plan/plan.hpp"
#include "reshard/planner/binding.hpp"
#include "reshard/planner/binding_cuts.hpp"
#include "reshard/planner/binding_identity.hpp"
#include "reshard/planner/binding_owners.hpp"
#include "reshard/planner/binding_pairs.hpp"
#include "reshard/planner/binding_stored.hpp"
#include "reshard/planner/catalog.hpp"

namespace reshard::planner {

struct Unit {
  std::size_t rule = kNoRule;
  std::vector<const Identity*> tensors;  ///< one, or the members of a group that are there, ascending by member
};

/// A tensor's layout and dtypes; `layout` counts in the solver's pairs.
struct SolvedTensor {
  std::size_t layout = 0;
  Dtype source_dtype = Dtype::kU8;
  Dtype target_dtype = Dtype::kU8;
  std::int64_t target_bytes = 0;  ///< no fewer than all ranks store together
};

struct Solution {
  std::vector<SolvedTensor> tensors;  ///< as in the unit; empty where there are faults
  std::vector<Fault> faults;
  std::vector<std::string> fallbacks;  ///< what was done otherwise than asked, for W_FALLBACK
};

/// One side's placement of a rule, ready to be applied.
struct SidePlacement {
  const plan::Placement* placement = nullptr;
  const layout::Mesh* mesh = nullptr;
  std::string view;                  ///< empty where the side has no view of that name
  std::vector<plan::DimRule> shard;  ///< with the numbers of packed sequences
};

/// A unit of one tensor or of a group on the way to its solution.
struct UnitWork {
  const Unit* unit = nullptr;
  const SidePlacement* source = nullptr;
  const SidePlacement* target = nullptr;
  std::vector<Stored> stored;                   ///< by tensor of the unit
  std::vector<const RecordedLayout*> recorded;  ///< by tensor of the unit; null: no manifest
  std::vector<bool> source_present;
  std::vector<bool> target_present;
};

/// Layouts of both sides of one tensor of a unit, and its target cuts in final form.
struct UnitLayout {
  layout::TensorLayout source;
  layout::TensorLayout target;
  std::vector<layout::DimCut> target_cuts;
};

/// Axes that cut something, by name.
using AxisNames = std::set<std::string>;

class UnitSolver {
 public:
  UnitSolver(const plan::ParallelPlan& plan, const SourceCatalog& catalog, const TensorNumbers& numbers,
             Presence& source, Presence& target);

  const Solution& solve(const Unit& unit);

  std::vector<LayoutPair> take_pairs() { return pairs_.take(); }
  const AxisNames& source_axes() const { return source_axes_; }
  const AxisNames& target_axes() const { return target_axes_; }

 private:
  struct RuleSides {
    SidePlacement source;
    SidePlacement target;
    std::vector<Fault> faults;  ///< of its packed sequences
  };
  const RuleSides& sides_of(std::size_t rule);
  SidePlacement side_placement(const plan::Side& side, const plan::Placement& placement, std::vector<Fault>& faults);
  Solution solve_anew(const Unit& unit);
  void convert_dtypes(const UnitWork& work, Solution& solution) const;

  const plan::ParallelPlan* plan_;
  const SourceCatalog* catalog_;
  Presence* source_presence_;
  Presence* target_presence_;
  PackedNumbers packed_;
  plan::Placement whole_;  ///< of tensors without a rule
  std::map<std::size_t, RuleSides> sides_;
  std::unordered_map<std::string, Solution> solutions_;
  LayoutPairs pairs_;
  AxisNames source_axes_;
  AxisNames target_axes_;
};

/// The layout of a tensor that is cut on its own. Faults and fallbacks go to the solution; nothing where there are
/// faults.
std::optional<UnitLayout> lay_out_tensor(const UnitWork& work, Solution& solution);

/// The layouts of a group's tensors, all by one logical partition: binding_group.cpp.
std::vector<UnitLayout> lay_out_group(const UnitWork& work, Solution& solution);

/// Text of a fallback: "target: 'tp' cannot cut ...".
std::string replicate_text(std::string_view side, const std::string& axis, const layout::Mesh& mesh);
std::string repeat_text(std::string_view side, const std::string& dim, const layout::Level& level);

}  // namespace reshard::planner
