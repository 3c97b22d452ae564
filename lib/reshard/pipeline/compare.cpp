#include "reshard/pipeline/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/directory.hpp"
#include "reshard/exchange/convert.hpp"
#include "reshard/exchange/element_text.hpp"
#include "reshard/pipeline/differences.hpp"
#include "reshard/pipeline/inspect.hpp"
#include "reshard/pipeline/prepare.hpp"
#include "reshard/planner/readers.hpp"

namespace reshard::pipeline {
namespace {

using planner::Index;

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// A checkpoint that tells its own layout: by its manifest, or because it is whole.
struct Described {
  std::optional<Manifest> manifest;
  SourceCheckpoint files;
};

Described open_described(const fs::path& path, const CompareOptions& options, const Formats& formats) {
  std::optional<Manifest> manifest = find_manifest(path);
  plan::Side side;
  if (manifest) {
    side = manifest->side;
  } else if (fs::is_directory(status_of(path))) {
    const auto refuse = [&](const std::string& why) {
      throw Error(Issue{ErrorCode::kUsage, path.string(), kNoTensor,
                        fmt::format("{}; without a manifest a checkpoint of several ranks needs --plan", why)});
    };
    try {
      side = side_by_names(path, formats);
    } catch (const Error& found) {
      if (found.issues().front().code != ErrorCode::kMissing) throw;
      refuse(found.issues().front().message);
    }
    if (side.mesh.size() != 1) refuse(fmt::format("holds {} ranks", side.mesh.size()));
  }
  SourceCheckpoint files = SourceCheckpoint::open(path, side, formats, options.allow_external, options.threads,
                                                  manifest ? &*manifest : nullptr);
  return {std::move(manifest), std::move(files)};
}

/// The two checkpoints and what is compared of them. Other members point into it: it stays where it is.
class Meeting {
 public:
  Meeting(const CompareOptions& options, const Formats& formats) {
    result_.a = options.a;
    result_.b = options.b;
    if (options.plan) {
      meet_by_plan(options, formats);
    } else {
      meet_by_themselves(options, formats);
    }
    for (const SourceCheckpoint* side : {&a(), &b()})
      result_.warnings.insert(result_.warnings.end(), side->warnings().begin(), side->warnings().end());
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  const SourceCheckpoint& a() const { return bound_ ? bound_->source : described_a_->files; }
  const SourceCheckpoint& b() const { return bound_ ? *target_ : described_b_->files; }
  /// Tensors of the same dtype and shape, of which the values are to be compared.
  const std::vector<TensorPair>& pairs() const { return pairs_; }
  const std::vector<std::string>& names() const { return names_; }
  /// What names, dtypes and shapes have told.
  const CompareResult& result() const { return result_; }

 private:
  void add_difference(const std::string& tensor, Quality what, std::string in_a, std::string in_b, std::string file_a,
                      std::string file_b) {
    result_.different.push_back(
        {tensor, what, std::nullopt, std::move(in_a), std::move(in_b), std::move(file_a), std::move(file_b)});
  }

  static std::string file_of(const SourceCheckpoint& checkpoint, const HeldTensor& tensor) {
    Index rank = 0;
    while (!tensor.layout->is_present(rank)) ++rank;
    return checkpoint.file_names()[checkpoint.locate(rank, tensor.stored_name).file];
  }

  // Without a plan

  std::map<std::string, HeldTensor> tensors_of(const Described& side) {
    std::map<std::string, HeldTensor> out;
    IssueList issues;
    for (const planner::SourceTensor& tensor : side.files.catalog().tensors) {
      if (tensor.refusal) {
        issues.add(*tensor.refusal);
      } else if (side.manifest) {
        for (const planner::RecordedTensor& recorded : tensor.recorded)
          out[recorded.name] = {&side.files.catalog().recorded_layouts[recorded.layout].layout, tensor.name,
                                side.manifest->tensors.at(recorded.name).dtype};
      } else {
        const Shape& shape = tensor.stored.front().shape;
        const auto [whole, added] = whole_.try_emplace(shape);
        if (added) whole->second = layout::lay_out(shape, {std::vector<layout::DimCut>(shape.size()), {}}, {});
        out[tensor.name] = {&whole->second, tensor.name, tensor.stored.front().dtype};
      }
    }
    issues.throw_if_any(Exit::kCheckpoint);
    return out;
  }

  void meet_by_themselves(const CompareOptions& options, const Formats& formats) {
    described_a_.emplace(open_described(options.a, options, formats));
    described_b_.emplace(open_described(options.b, options, formats));
    const std::map<std::string, HeldTensor> in_a = tensors_of(*described_a_);
    const std::map<std::string, HeldTensor> in_b = tensors_of(*described_b_);
    for (const auto& [tensor, held] : in_b)
      if (!in_a.contains(tensor)) result_.only_in_b.push_back(tensor);
    for (const auto& [tensor, one] : in_a) {
      const auto found = in_b.find(tensor);
      if (found == in_b.end()) {
        result_.only_in_a.push_back(tensor);
        continue;
      }
      const HeldTensor& other = found->second;
      if (one.dtype != other.dtype)
        add_difference(tensor, Quality::kDtype, std::string(reshard::name(one.dtype)),
                       std::string(reshard::name(other.dtype)), file_of(a(), one), file_of(b(), other));
      if (one.layout->shape != other.layout->shape)
        add_difference(tensor, Quality::kShape, shape_text(one.layout->shape), shape_text(other.layout->shape),
                       file_of(a(), one), file_of(b(), other));
      if (one.dtype == other.dtype && one.layout->shape == other.layout->shape) {
        names_.push_back(tensor);
        pairs_.push_back({one, other, one.dtype, {}});
      }
    }
  }

  // With a plan

  void meet_by_plan(const CompareOptions& options, const Formats& formats) {
    PrepareOptions prepare;
    prepare.plan_file = *options.plan;
    prepare.source = options.a;
    prepare.allow_external = options.allow_external;
    prepare.log = options.log;
    bound_.emplace(bind_source(load_plan(prepare), prepare, formats));

    plan::Side side = bound_->plan.target;
    if (const std::optional<Manifest> manifest = find_manifest(options.b)) {
      if (!side.files) side.files = manifest->side.files;
      if (!side.format) side.format = manifest->side.format;
    }
    target_.emplace(SourceCheckpoint::open(options.b, side, formats, options.allow_external, options.threads));

    std::map<std::string, const planner::SourceTensor*> by_name;
    for (const planner::SourceTensor& tensor : b().catalog().tensors) by_name[tensor.name] = &tensor;
    std::map<std::string, std::set<Index>> claimed;  // ranks, by stored name
    for (const planner::BoundTensor& tensor : bound_->bound.tensors) {
      const auto found = by_name.find(tensor.target_stored_name());
      if (found != by_name.end() && found->second->refusal) throw Error(*found->second->refusal);
      meet(tensor, found == by_name.end() ? nullptr : found->second, claimed[tensor.target_stored_name()]);
    }
    for (const auto& [stored, tensor] : by_name) {
      const std::set<Index>& ranks = claimed[stored];
      bool is_extra = tensor->refusal != nullptr;
      for (const planner::StoredRun& run : tensor->stored)
        for (Index rank = run.first_rank; rank <= run.last_rank; ++rank) is_extra = is_extra || !ranks.contains(rank);
      if (is_extra) result_.only_in_b.push_back(stored);
    }
  }

  /// `found`: what the target's files have under the stored name.
  void meet(const planner::BoundTensor& tensor, const planner::SourceTensor* found, std::set<Index>& claimed) {
    const planner::LayoutPair& pair = bound_->bound.layouts[tensor.layout];
    const HeldTensor one{&pair.source, tensor.source_stored_name(), tensor.source_dtype};
    const HeldTensor other{&pair.target, tensor.target_stored_name(), tensor.target_dtype};
    const auto run_at = [&](Index rank) -> const planner::StoredRun* {
      if (found == nullptr) return nullptr;
      for (const planner::StoredRun& run : found->stored)
        if (run.first_rank <= rank && rank <= run.last_rank) return &run;
      return nullptr;
    };
    std::optional<Index> missing;
    std::optional<Index> there;
    std::optional<Index> other_dtype;
    std::optional<Index> other_shape;
    for (Index rank = 0; rank < pair.target.ranks; ++rank) {
      if (!pair.target.is_present(rank)) continue;
      const planner::StoredRun* const run = run_at(rank);
      if (run == nullptr) {
        if (!missing) missing = rank;
        continue;
      }
      claimed.insert(rank);
      if (!there) there = rank;
      if (run->dtype != tensor.target_dtype && !other_dtype) other_dtype = rank;
      const bool same_shape = run->shape == pair.target.stored_shape(rank) &&
                              (!run->global_shape || run->global_shape == pair.target.shape);
      if (!same_shape && !other_shape) other_shape = rank;
    }
    if (!there) {
      result_.only_in_a.push_back(tensor.target_name);
      return;
    }
    // The same tensor only where every rank that the plan names has it.
    if (missing)
      throw Error(Issue{ErrorCode::kMissing, b().root().string(), tensor.target_name,
                        fmt::format("is in {}, but not on rank {}: by the plan that rank has it too",
                                    file_at(*there, other.stored_name), *missing)});
    if (other_dtype)
      add_difference(tensor.target_name, Quality::kDtype, std::string(reshard::name(tensor.target_dtype)),
                     std::string(reshard::name(run_at(*other_dtype)->dtype)), file_of(a(), one),
                     file_at(*other_dtype, other.stored_name));
    if (other_shape)
      add_difference(tensor.target_name, Quality::kShape,
                     stored_text(pair.target.stored_shape(*other_shape), pair.target.shape),
                     stored_text(run_at(*other_shape)->shape, run_at(*other_shape)->global_shape), file_of(a(), one),
                     file_at(*other_shape, other.stored_name));
    if (other_dtype || other_shape) return;
    names_.push_back(tensor.target_name);
    pairs_.push_back({one, other, tensor.target_dtype, {}});
  }

  std::string file_at(Index rank, const std::string& stored_name) const {
    return b().file_names()[b().locate(rank, stored_name).file];
  }

  static std::string stored_text(const Shape& stored, const std::optional<Shape>& whole) {
    return whole && stored != *whole ? fmt::format("{} of {}", shape_text(stored), shape_text(*whole))
                                     : shape_text(stored);
  }

  std::optional<BoundSource> bound_;  // with a plan; else the two described ones
  std::optional<SourceCheckpoint> target_;
  std::optional<Described> described_a_;
  std::optional<Described> described_b_;
  std::map<Shape, layout::TensorLayout> whole_;
  std::vector<std::string> names_;  // parallel to pairs_
  std::vector<TensorPair> pairs_;
  CompareResult result_;
};

/// The pairs with the copies that `one` is read from.
std::vector<TensorPair> with_sources(std::vector<TensorPair> pairs) {
  std::vector<planner::TensorToRead> tensors;
  for (const TensorPair& pair : pairs) tensors.push_back({pair.one.layout, size_bytes(pair.one.dtype)});
  std::vector<std::vector<Index>> sources = planner::choose_sources(tensors);
  for (std::size_t p = 0; p < pairs.size(); ++p) pairs[p].sources = std::move(sources[p]);
  return pairs;
}

/// Those of which `a` holds something more than once, the other way round, and their numbers.
std::vector<TensorPair> turned(const std::vector<TensorPair>& pairs, std::vector<std::size_t>& numbers) {
  std::vector<TensorPair> out;
  std::map<const layout::TensorLayout*, bool> replicated;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const auto [known, added] = replicated.try_emplace(pairs[p].one.layout);
    if (added) known->second = has_copies(*pairs[p].one.layout);
    if (!known->second) continue;
    numbers.push_back(p);
    out.push_back({pairs[p].other, pairs[p].one, pairs[p].as, {}});
  }
  return out;
}

std::int64_t other_bytes(const std::vector<TensorPair>& pairs) {
  std::int64_t out = 0;
  for (const TensorPair& pair : pairs)
    for (Index rank = 0; rank < pair.other.layout->ranks; ++rank)
      if (pair.other.layout->is_present(rank))
        out = checked_add(
            out, checked_mul(checked_product(pair.other.layout->stored_shape(rank)), size_bytes(pair.other.dtype)));
  return out;
}

/// One element, as text in the dtype that the pair is compared in.
std::string value_text(const OpenCheckpoint& checkpoint, const HeldTensor& tensor, Dtype as, Index rank,
                       const Shape& at) {
  Index position = 0;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const layout::DimLayout& dim = tensor.layout->dims[d];
    const layout::DimShard& part = dim.shard_of(rank);
    const auto run = std::find_if(part.runs.begin(), part.runs.end(), [&](const layout::Run& candidate) {
      return candidate.global <= at[d] && at[d] < candidate.global + candidate.length;
    });
    if (run == part.runs.end()) internal_error("an element that differs is not held");
    position = position * part.stored_length + run->stored + at[d] - run->global;
  }
  std::vector<std::byte> element(static_cast<std::size_t>(size_bytes(tensor.dtype)));
  checkpoint.readers.read(checkpoint.files.locate(rank, tensor.stored_name), position * size_bytes(tensor.dtype),
                          element);
  if (tensor.dtype == as) return exchange::element_text(as, element);
  std::vector<std::byte> converted(static_cast<std::size_t>(size_bytes(as)));
  exchange::convert(tensor.dtype, element, as, converted);
  return exchange::element_text(as, converted);
}

void check_same_meeting(const Meeting& meeting, exchange::Communicator& communicator) {
  std::string text;
  for (std::size_t p = 0; p < meeting.pairs().size(); ++p)
    text += fmt::format("{} {}\n", escaped(meeting.names()[p]), shape_text(meeting.pairs()[p].one.layout->shape));
  const bool same = exchange::same_everywhere(communicator, text);
  exchange::agreed(communicator, [&] {
    if (same) return;
    throw Error(
        Issue{ErrorCode::kMissing, "", kNoTensor,
              "the processes do not see the same files: are both checkpoints on file systems that all nodes share?"});
  });
}

}  // namespace

std::string_view name(Quality quality) {
  switch (quality) {
    case Quality::kDtype:
      return "dtype";
    case Quality::kShape:
      return "shape";
    case Quality::kValue:
      return "value";
  }
  internal_error("a quality without a name");
}

CompareResult compare(const CompareOptions& options, const Formats& formats, exchange::Communicator& communicator) {
  std::unique_ptr<Meeting> meeting;
  std::vector<TensorPair> pairs;
  // Of one copy in `a` with all in `b`, and of one in `b` with all in `a`, where there are several.
  std::vector<std::size_t> turned_numbers;
  std::vector<TensorPair> turned_pairs;
  exchange::agreed(communicator, [&] {
    meeting = std::make_unique<Meeting>(options, formats);
    pairs = with_sources(meeting->pairs());
    turned_pairs = with_sources(turned(pairs, turned_numbers));
  });
  check_same_meeting(*meeting, communicator);
  options.log(fmt::format("{} tensors to compare, {} of them with copies in {}", pairs.size(), turned_pairs.size(),
                          options.a.string()));
  if (options.progress_total != nullptr)
    *options.progress_total = (other_bytes(pairs) + other_bytes(turned_pairs)) / communicator.size();

  SourceReaders readers_a(meeting->a(), options.allow_external);
  SourceReaders readers_b(meeting->b(), options.allow_external);
  const OpenCheckpoint a{meeting->a(), readers_a};
  const OpenCheckpoint b{meeting->b(), readers_b};
  DifferenceOptions how;
  how.threads = options.threads;
  how.interrupted = options.interrupted;
  how.progress_bytes = options.progress_bytes;
  std::map<std::size_t, Difference> differences = first_differences(a, b, pairs, how, communicator).first;
  for (const auto& [number, found] : first_differences(b, a, turned_pairs, how, communicator).first) {
    const Difference difference{found.element, found.other_rank, found.one_rank};
    const auto [known, added] = differences.try_emplace(turned_numbers[number], difference);
    if (!added) known->second = std::min(known->second, difference);
  }

  CompareResult out = meeting->result();
  out.equal = std::ssize(pairs) - std::ssize(differences);
  exchange::agreed(communicator, [&] {
    for (const auto& [p, difference] : differences) {
      const TensorPair& pair = pairs[p];
      TensorDifference entry{meeting->names()[p], Quality::kValue, {}, {}, {}, {}, {}};
      entry.at = coordinates_of(pair.one.layout->shape, difference.element);
      if (communicator.rank() == 0) {
        entry.a = value_text(a, pair.one, pair.as, difference.one_rank, *entry.at);
        entry.b = value_text(b, pair.other, pair.as, difference.other_rank, *entry.at);
      }
      entry.file_a = a.files.file_names()[a.files.locate(difference.one_rank, pair.one.stored_name).file];
      entry.file_b = b.files.file_names()[b.files.locate(difference.other_rank, pair.other.stored_name).file];
      out.different.push_back(std::move(entry));
    }
  });
  std::sort(out.only_in_a.begin(), out.only_in_a.end());
  std::sort(out.only_in_b.begin(), out.only_in_b.end());
  std::stable_sort(out.different.begin(), out.different.end(),
                   [](const TensorDifference& x, const TensorDifference& y) { return x.tensor < y.tensor; });
  return out;
}

}  // namespace reshard::pipeline
