#include "reshard/planner/binding_solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reshard/planner/binding_dtype.hpp"
#include "reshard/planner/binding_recorded.hpp"
#include "reshard/planner/binding_text.hpp"

namespace reshard::planner {

using layout::DimCut;
using layout::TensorCut;

namespace {

/// All that the solution of a unit depends on, as bytes.
std::string key_of(const Unit& unit, const SourceCatalog& catalog) {
  std::string out;
  const auto add = [&](Index number) { out.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const auto add_numbers = [&](const std::vector<Index>& numbers) {
    add(static_cast<Index>(numbers.size()));
    for (const Index number : numbers) add(number);
  };
  const auto add_owners = [&](const std::vector<BoundOwner>& owners) {
    add(static_cast<Index>(owners.size()));
    for (const BoundOwner& owner : owners) {
      add(static_cast<Index>(owner.axis.size()));
      out += owner.axis;
      add_numbers(owner.indices);
    }
  };
  add(static_cast<Index>(unit.rule));
  for (const Identity* identity : unit.tensors) {
    add(static_cast<Index>(identity->member));
    add(identity->recorded ? static_cast<Index>(*identity->recorded) : -1);
    add_owners(identity->source_owners);
    add_owners(identity->target_owners);
    const std::vector<StoredRun>& runs = identity->runs(catalog);
    add(static_cast<Index>(runs.size()));
    for (const StoredRun& run : runs) {
      add_numbers({run.first_rank, run.last_rank, static_cast<Index>(run.dtype), run.global_shape ? 1 : 0});
      add_numbers(run.shape);
      if (run.global_shape) add_numbers(*run.global_shape);
    }
  }
  return out;
}

void note_axes(const std::vector<DimCut>& cuts, const layout::TensorLayout& layout,
               const std::vector<BoundOwner>& owners, AxisNames& axes) {
  for (const DimCut& cut : cuts)
    for (const layout::Level& level : cut.levels)
      if (level.axis_size > 1 &&
          std::find(layout.fallen_back.begin(), layout.fallen_back.end(), level.axis) == layout.fallen_back.end())
        axes.insert(level.axis);
  for (const BoundOwner& owner : owners) axes.insert(owner.axis);
}

/// The true size belongs to the tensor: what one side says holds for the other.
void share_sizes(std::vector<DimCut>& source, std::vector<DimCut>& target, std::vector<Fault>& faults) {
  for (std::size_t dim = 0; dim < source.size(); ++dim) {
    std::optional<Index>& a = source[dim].size;
    std::optional<Index>& b = target[dim].size;
    if (a && b && *a != *b)
      faults.push_back(
          {0, ErrorCode::kShape, fmt::format("dim {}: `size` is {} on the source and {} on the target", dim, *a, *b)});
    if (!a) a = b;
    if (!b) b = a;
  }
}

}  // namespace

std::string replicate_text(std::string_view side, const std::string& axis, const layout::Mesh& mesh) {
  return fmt::format("{}: '{}' of size {} cannot cut as asked and is ignored (`fallback: replicate`)", side, axis,
                     mesh.axis_size(axis).value_or(1));
}

std::string repeat_text(std::string_view side, const std::string& dim, const layout::Level& level) {
  return fmt::format(
      "{}: {} has fewer units than the {} coordinates of '{}'; each unit is stored on several (`fallback: repeat`)",
      side, dim, level.axis_size, level.axis);
}

std::optional<UnitLayout> lay_out_tensor(const UnitWork& work, Solution& solution) {
  const Stored& stored = work.stored.front();
  std::vector<Fault>& faults = solution.faults;
  UnitLayout out;
  TensorCut source{{}, work.source_present};
  TensorCut target{{}, work.target_present};
  for (auto* side : {&source, &target}) {
    const bool is_source = side == &source;
    try {
      const SidePlacement& placement = is_source ? *work.source : *work.target;
      side->dims = cuts_by_position(placement.shard, stored.rank_of_tensor, *placement.mesh);
    } catch (const Error& error) {
      add_faults(error, 0, "", faults);
    }
  }
  if (!faults.empty()) return std::nullopt;
  share_sizes(source.dims, target.dims, faults);
  if (!faults.empty()) return std::nullopt;

  Shape shape;
  if (work.recorded.front() != nullptr) {
    shape = work.recorded.front()->layout.shape;
    out.source = recorded_source(work, source, faults);
  } else {
    try {
      shape = layout::infer_shape(source, *work.source->mesh, stored.by_rank, stored.recorded);
      out.source = layout::lay_out(shape, source, *work.source->mesh);
    } catch (const Error& error) {
      add_faults(error, 0, "source: ", faults);
      return std::nullopt;
    }
    check_layout(stored, out.source, 0, faults);
  }
  if (!faults.empty()) return std::nullopt;
  try {
    out.target = layout::lay_out(shape, target, *work.target->mesh);
  } catch (const Error& error) {
    add_faults(error, 0, "target: ", faults);
    return std::nullopt;
  }
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    out.target_cuts.push_back(final_cut(target.dims[dim], shape[dim], *work.target->mesh));
    const std::string name = fmt::format("dim {}", dim);
    std::vector<std::string> fallen_back;
    layout::resolve_fallbacks(source.dims[dim], shape[dim], fallen_back);
    layout::resolve_fallbacks(target.dims[dim], shape[dim], fallen_back);
    if (repeats(source.dims[dim], shape[dim]))
      solution.fallbacks.push_back(repeat_text("source", name, source.dims[dim].levels.front()));
    if (repeats(target.dims[dim], shape[dim]))
      solution.fallbacks.push_back(repeat_text("target", name, target.dims[dim].levels.front()));
  }
  for (const std::string& axis : out.source.fallen_back)
    solution.fallbacks.push_back(replicate_text("source", axis, *work.source->mesh));
  for (const std::string& axis : out.target.fallen_back)
    solution.fallbacks.push_back(replicate_text("target", axis, *work.target->mesh));
  return out;
}

UnitSolver::UnitSolver(const plan::ParallelPlan& plan, const SourceCatalog& catalog, const TensorNumbers& numbers,
                       Presence& source, Presence& target)
    : plan_(&plan),
      catalog_(&catalog),
      source_presence_(&source),
      target_presence_(&target),
      packed_(catalog, numbers) {}

SidePlacement UnitSolver::side_placement(const plan::Side& side, const plan::Placement& placement,
                                         std::vector<Fault>& faults) {
  SidePlacement out{&placement, &side.mesh_of(placement.view), {}, placement.shard};
  for (const plan::View& view : side.views)
    if (view.name == placement.view) out.view = view.name;
  for (plan::DimRule& dim : out.shard) {
    try {
      packed_.fill(dim.cut);
    } catch (const Error& error) {
      add_faults(error, 0, fmt::format("dim {}: ", dim.dim), faults);
    }
  }
  return out;
}

const UnitSolver::RuleSides& UnitSolver::sides_of(std::size_t rule) {
  const auto [found, is_new] = sides_.try_emplace(rule);
  if (is_new) {
    RuleSides& sides = found->second;
    sides.source = side_placement(plan_->source, rule == kNoRule ? whole_ : plan_->rules[rule].source, sides.faults);
    sides.target = side_placement(plan_->target, rule == kNoRule ? whole_ : plan_->rules[rule].target, sides.faults);
  }
  return found->second;
}

const Solution& UnitSolver::solve(const Unit& unit) {
  const auto [found, is_new] = solutions_.try_emplace(key_of(unit, *catalog_));
  if (!is_new) return found->second;
  found->second = solve_anew(unit);
  // A key that both sides have is wrong on both: one fault.
  std::vector<Fault>& faults = found->second.faults;
  for (auto fault = faults.begin(); fault != faults.end();)
    fault = std::find(faults.begin(), fault, *fault) == fault ? fault + 1 : faults.erase(fault);
  return found->second;
}

void UnitSolver::convert_dtypes(const UnitWork& work, Solution& solution) const {
  const Unit& unit = *work.unit;
  for (const Stored& stored : work.stored) solution.tensors.push_back({0, stored.dtype, stored.dtype, 0});
  if (unit.rule == kNoRule || !plan_->rules[unit.rule].dtype) return;
  const Dtype wanted = *plan_->rules[unit.rule].dtype;
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    solution.tensors[i].target_dtype = wanted;
    if (!is_convertible(work.stored[i].dtype))
      solution.faults.push_back({i, ErrorCode::kDtype,
                                 fmt::format("stored as {}: `dtype: {}` converts between f64, f32, f16 and bf16 only; "
                                             "give it a rule without `dtype`",
                                             name(work.stored[i].dtype), name(wanted))});
  }
}

Solution UnitSolver::solve_anew(const Unit& unit) {
  Solution out;
  const RuleSides& sides = sides_of(unit.rule);
  const Identity& first = *unit.tensors.front();
  UnitWork work;
  work.unit = &unit;
  work.source = &sides.source;
  work.target = &sides.target;
  work.source_present = source_presence_->ranks(sides.source.view, first.source_owners);
  work.target_present = target_presence_->ranks(sides.target.view, first.target_owners);
  if (first.cut_by_manifest) work.source_present = catalog_->recorded_layouts[*first.recorded].layout.present;
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    const Identity& identity = *unit.tensors[i];
    work.recorded.push_back(identity.recorded ? &catalog_->recorded_layouts[*identity.recorded] : nullptr);
    work.stored.push_back(collect_stored(identity.runs(*catalog_), catalog_->ranks, i, out.faults));
    check_presence(work.stored.back(), work.source_present, !sides.source.placement->owners.empty(), i, out.faults);
  }
  out.faults.insert(out.faults.end(), sides.faults.begin(), sides.faults.end());
  convert_dtypes(work, out);
  std::vector<UnitLayout> layouts;
  if (out.faults.empty() && unit.rule != kNoRule && is_group(plan_->rules[unit.rule])) {
    layouts = lay_out_group(work, out);
  } else if (out.faults.empty()) {
    if (auto layout = lay_out_tensor(work, out)) layouts.push_back(std::move(*layout));
  }
  name_recorded(work, out.faults);
  for (std::size_t i = 0; i < layouts.size(); ++i) check_recorded(work, layouts[i].source, i, out.faults);
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (const DimCut& cut : layouts[i].target_cuts)
      if (cut.pad_value && !holds_exactly(out.tensors[i].target_dtype, *cut.pad_value))
        out.faults.push_back(
            {i, ErrorCode::kDtype,
             fmt::format("`pad_value` {} is no value of {}", *cut.pad_value, name(out.tensors[i].target_dtype))});
  for (std::size_t i = 0; i < layouts.size(); ++i)
    out.tensors[i].target_bytes = target_bytes(layouts[i].target, out.tensors[i].target_dtype, i, out.faults);
  if (!out.faults.empty()) {
    out.tensors.clear();
    return out;
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    UnitLayout& layout = layouts[i];
    note_axes(layout.target_cuts, layout.target, first.target_owners, target_axes_);
    out.tensors[i].layout =
        pairs_.index_of({std::move(layout.source), std::move(layout.target),
                         BoundPlacement{sides.target.view, std::move(layout.target_cuts), first.target_owners}});
  }
  if (first.cut_by_manifest)
    for (const RecordedLayout* recorded : work.recorded)
      source_axes_.insert(recorded->axes.begin(), recorded->axes.end());
  std::vector<DimCut> source_cuts;
  for (const plan::DimRule& rule : sides.source.shard) source_cuts.push_back(rule.cut);
  note_axes(source_cuts, pairs_[out.tensors.front().layout].source, first.source_owners, source_axes_);
  return out;
}

}  // namespace reshard::planner
