#pragma once
// A side of a plan (section 3): its mesh, views and files.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/value.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {

struct View {
  std::string name;
  layout::Mesh mesh;
};

struct Side {
  layout::Mesh mesh;
  bool axes_given = false;    ///< false: `axes` was left out (one rank, or a source manifest's mesh)
  bool all_axes_read = true;  ///< false: a faulty entry of `axes` or `views` was left out, and with it what it names
  std::vector<View> views;    ///< in the order written
  std::optional<std::string> format;
  std::optional<std::string> files;  ///< template, checked (fields, no absolute path, no `..`)
  std::optional<std::int64_t> max_file_size_bytes;
  std::optional<std::string> path;

  /// The mesh of a view; `axes` where the side does not define it or `view` is empty.
  const layout::Mesh& mesh_of(std::string_view view) const;
  bool has_view(std::string_view view) const;
  /// Axis names of `axes`, then those that only a view has: the fields that `files` may hold beside {rank}.
  std::vector<std::string> axis_names() const;
};

enum class Role { kSource, kTarget };

/// What can be read of a side; all that is wrong goes to `faults`. `inherited`, where there is one, supplies `axes`,
/// `ranks` and views that the side leaves out. Whether what the side says itself agrees with it is not looked at.
Side read_side(const Node& node, Role role, const Side* inherited, Faults& faults);

/// Same, of a value that stands alone (a manifest's mesh). Throws what is wrong: kSchema, kMeshSize, kAxisDup, kRanks,
/// kMeshWorld.
Side read_side(const Value& value, Role role, std::string_view source);

/// Formats this version reads and writes.
const std::vector<std::string>& format_names();

/// Rules across both sides and the command line: `max_file_size` needs a full safetensors target.
void check_file_size_limit(const Side& source, const Side& target, const Node& target_node, Faults& faults);

}  // namespace reshard::plan
