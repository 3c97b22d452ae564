#include "reshard/report/header_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reshard/report/text.hpp"

namespace reshard::report {
namespace {

constexpr std::size_t kNames = 8;

std::string side_text(const pipeline::SideSummary& side) {
  std::string mesh = side.axes.empty() ? "whole" : fmt::format("{}", fmt::join(side.axes, " "));
  for (const auto& [name, axes] : side.views) mesh += fmt::format(", {}: {}", name, fmt::join(axes, " "));
  return fmt::format("{} ({}), {}, {}", mesh, count_text(side.ranks, "rank"), side.format, bytes_text(side.bytes));
}

}  // namespace

std::string sides_text(const pipeline::PlanHeader& plan) {
  return labelled("source", side_text(plan.source)) + labelled("target", side_text(plan.target));
}

std::string transport_text(const pipeline::PlanHeader& plan) {
  return labelled("transport", fmt::format("{}: {}", plan.transport, plan.transport_why));
}

std::string device_text(const pipeline::PlanHeader& plan) {
  if (plan.peak_device_bytes.empty()) return "";
  const std::int64_t peak = *std::max_element(plan.peak_device_bytes.begin(), plan.peak_device_bytes.end());
  return labelled("GPU memory", fmt::format("{} of tensor bytes in a process at most, {} allowed", bytes_text(peak),
                                            bytes_text(plan.device_bound_bytes)));
}

std::string left_out_text(const pipeline::PlanHeader& plan) {
  std::string out;
  if (!plan.dropped.empty()) {
    std::string text = count_text(static_cast<std::int64_t>(plan.dropped.size()), "tensor") + " of the source";
    if (plan.dropped_unmatched != 0) text += fmt::format(" ({} that no rule matches)", plan.dropped_unmatched);
    out += labelled("left out", text + ": " + names_text(plan.dropped, kNames));
  }
  if (plan.unused_optional_rules != 0)
    out += labelled("unused", count_text(plan.unused_optional_rules, "rule") + " matched nothing");
  return out;
}

}  // namespace reshard::report
