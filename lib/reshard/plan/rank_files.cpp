#include "reshard/plan/rank_files.hpp"

#include <fmt/format.h>

#include <vector>

namespace reshard::plan {
namespace {

std::vector<std::string> axis_names(const Side& side) {
  std::vector<std::string> out;
  for (const layout::Axis& axis : side.mesh.axes()) out.push_back(axis.name);
  for (const View& view : side.views)
    for (const layout::Axis& axis : view.mesh.axes()) out.push_back(axis.name);
  return out;
}

}  // namespace

std::string default_files(layout::Index ranks, std::string_view extension) {
  return fmt::format("{}{}", ranks == 1 ? "model" : "rank-{rank:05}", extension);
}

RankFiles::RankFiles(std::string_view files, const Side& side) : side_(side), template_(files, axis_names(side)) {}

std::string RankFiles::of(layout::Index rank) const {
  FileFields values;
  for (const View& view : side_.views)
    for (const layout::Axis& axis : view.mesh.axes()) values[axis.name] = view.mesh.coordinate(rank, axis.name);
  for (const layout::Axis& axis : side_.mesh.axes()) values[axis.name] = side_.mesh.coordinate(rank, axis.name);
  values["rank"] = rank;
  return template_.expand(values);
}

}  // namespace reshard::plan
