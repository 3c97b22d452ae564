#include "reshard/plan/side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "reshard/base/error.hpp"
#include "reshard/plan/file_template.hpp"
#include "reshard/plan/size.hpp"

namespace reshard::plan {
namespace {

using layout::Axis;
using layout::Index;
using layout::Mesh;

const std::vector<std::string> kKeys = {"axes", "ranks", "views", "format", "files", "max_file_size", "path"};
constexpr std::string_view kAxisForm = "expected \"name=size\", as in \"tp=4\"";
constexpr std::size_t kMaxAxes = 64;
/// A rank costs some hundred bytes for every way in which tensors are cut.
constexpr Index kMaxRanks = Index{1} << 20;

/// Names of files that a target has anyway: its manifest, the journal of its staging directory, the index of a set.
constexpr std::string_view kReservedFiles[] = {"reshard.json", "journal", "model.safetensors.index.json"};

bool is_axis_name(std::string_view text) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  if (text.empty() || !lower(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; });
}

/// A size as JSON writes integers: no sign, no leading zero. 0 for anything else.
Index axis_size(std::string_view text) {
  Index size = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (fault != std::errc() || end != text.data() + text.size() || text.front() == '0' || text.front() == '-') return 0;
  return size;
}

std::optional<Axis> read_axis(const Node& node, Faults& faults) {
  if (!node->is_string()) {
    faults.add(ErrorCode::kSchema, node, fmt::format("found {}, {}", describe(*node), kAxisForm));
    return std::nullopt;
  }
  const std::string& text = node->string();
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals);
  if (!is_axis_name(name)) {
    faults.add(
        ErrorCode::kSchema, node,
        fmt::format(
            "'{}' is no axis name in '{}'; {}; names are lower case letters, digits and '_', and begin with a letter",
            name, text, kAxisForm));
    return std::nullopt;
  }
  if (equals == text.size()) {
    faults.add(ErrorCode::kMeshSize, node, fmt::format("axis '{}' has no size; {}", name, kAxisForm));
    return Axis{name, 1};
  }
  const std::string size_text = text.substr(equals + 1);
  const Index size = axis_size(size_text);
  if (size < 1) {
    faults.add(
        ErrorCode::kMeshSize, node,
        fmt::format("axis '{}' has the size '{}', expected an integer of 1 or more, as in \"tp=4\"", name, size_text));
    return Axis{name, 1};
  }
  return Axis{name, size};
}

struct WrittenAxes {
  std::vector<Axis> axes;
  bool all_read = true;  ///< false: what could not be read may have named more axes
};

WrittenAxes read_axes(const Node& node, Faults& faults) {
  if (!expect_list(node, "a list of \"name=size\", outermost first", faults)) return {{}, false};
  Index product = 1;
  bool too_large = false;
  if (node->array().size() > kMaxAxes) {
    faults.add(ErrorCode::kSchema, node, fmt::format("{} axes, at most {} are read", node->array().size(), kMaxAxes));
    return {{}, false};
  }
  WrittenAxes out;
  std::vector<Axis>& axes = out.axes;
  for (std::size_t i = 0; i < node->array().size(); ++i) {
    const Node item = child(node, i);
    const std::optional<Axis> axis = read_axis(item, faults);
    if (!axis) {
      out.all_read = false;
      continue;
    }
    if (std::any_of(axes.begin(), axes.end(), [&](const Axis& known) { return known.name == axis->name; })) {
      faults.add(ErrorCode::kAxisDup, item, fmt::format("axis '{}' stands twice in one mesh", axis->name));
      continue;
    }
    if (!too_large && axis->size > kMaxRanks / product) {
      faults.add(ErrorCode::kMeshSize, item,
                 fmt::format("with '{}' the mesh has more than {} ranks", item->string(), kMaxRanks));
      too_large = true;
    }
    axes.push_back({axis->name, too_large ? 1 : axis->size});
    product *= axes.back().size;
  }
  return out;
}

Mesh read_mesh(std::vector<Axis> axes, const std::optional<Node>& ranks_node, Faults& faults) {
  if (!ranks_node || !expect_list(*ranks_node, "a list of rank numbers", faults)) return Mesh(std::move(axes));
  std::vector<Index> ranks;
  const std::size_t reports_before = faults.reports();
  for (std::size_t i = 0; i < (*ranks_node)->array().size(); ++i)
    ranks.push_back(read_integer(child(*ranks_node, i), 0, faults, ErrorCode::kRanks).value_or(0));
  if (faults.reports() > reports_before) return Mesh(std::move(axes));
  if (ranks.empty()) {
    faults.add(ErrorCode::kRanks, *ranks_node, fmt::format("an empty list, the mesh has {} ranks", Mesh(axes).size()));
    return Mesh(std::move(axes));
  }
  try {
    return Mesh(axes, std::move(ranks));
  } catch (const Error& error) {
    faults.add(error.issues().front().code, *ranks_node, error.issues().front().message);
    return Mesh(std::move(axes));
  }
}

void read_views(const Node& node, Side& side, bool mesh_is_good, Faults& faults) {
  if (!expect_small_map(node, "a map of view names to lists of \"name=size\"", faults)) {
    side.all_axes_read = false;
    return;
  }
  const Mesh& mesh = side.mesh;
  for (const Value::Member& member : node->object()) {
    const Node at = child(node, member);
    const std::size_t reports_before = faults.reports();
    WrittenAxes written = read_axes(at, faults);
    side.all_axes_read &= written.all_read;
    Mesh view(written.axes);
    // A view factors positions, as the axes do: a rank has one position, whatever numbers the files carry.
    if (view.size() == mesh.size()) view = Mesh(std::move(written.axes), mesh.ranks());
    if (mesh_is_good && faults.reports() == reports_before && view.size() != mesh.size())
      faults.add(ErrorCode::kMeshWorld, at,
                 fmt::format("view '{}' has {} ranks, the side's axes have {}; a view factors the same ranks",
                             member.key, view.size(), mesh.size()));
    side.views.push_back({member.key, std::move(view)});
  }
}

std::optional<std::int64_t> read_size(const Node& node, Faults& faults) {
  if (node->is_integer()) return read_integer(node, 1, faults);
  const std::optional<std::int64_t> size = node->is_string() ? parse_size(node->string()) : std::nullopt;
  if (size && *size >= 1) return size;
  faults.add(ErrorCode::kSchema, node, fmt::format("found {}, expected {}", describe(*node), kSizeForms));
  return std::nullopt;
}

std::optional<std::string> read_files(const Node& node, const Side& side, Role role, Faults& faults) {
  const std::optional<std::string> text = read_string(node, faults);
  if (!text) return std::nullopt;
  try {
    if (side.all_axes_read) const FileTemplate checked(*text, side.axis_names());
  } catch (const Error& error) {
    faults.add(error.issues().front().code, node, error.issues().front().message);
    return std::nullopt;
  }
  const bool reserved =
      std::find(std::begin(kReservedFiles), std::end(kReservedFiles), *text) != std::end(kReservedFiles) ||
      text->starts_with("journal.");  // journal.N: of process N
  if (role == Role::kTarget && reserved) {
    faults.add(ErrorCode::kSchema, node,
               fmt::format("'{}' is a file that reshard writes itself; choose another name", *text));
    return std::nullopt;
  }
  return text;
}

}  // namespace

const layout::Mesh& Side::mesh_of(std::string_view view) const {
  for (const View& candidate : views)
    if (!view.empty() && candidate.name == view) return candidate.mesh;
  return mesh;
}

bool Side::has_view(std::string_view view) const {
  return std::any_of(views.begin(), views.end(), [&](const View& candidate) { return candidate.name == view; });
}

std::vector<std::string> Side::axis_names() const {
  std::vector<std::string> names;
  const auto add = [&](const layout::Mesh& from) {
    for (const Axis& axis : from.axes())
      if (std::find(names.begin(), names.end(), axis.name) == names.end()) names.push_back(axis.name);
  };
  add(mesh);
  for (const View& view : views) add(view.mesh);
  return names;
}

const std::vector<std::string>& format_names() {
  static const std::vector<std::string> names = {"hdf5", "safetensors"};
  return names;
}

Side read_side(const Node& node, Role role, const Side* inherited, Faults& faults) {
  Side side;
  const Fields fields(node, kKeys, faults);
  if (!fields.is_map()) return side;
  const std::size_t reports_before = faults.reports();
  std::vector<Axis> axes;
  if (const auto given = fields.find("axes")) {
    side.axes_given = true;
    WrittenAxes written = read_axes(*given, faults);
    side.all_axes_read = written.all_read;
    axes = std::move(written.axes);
  } else if (inherited != nullptr) {
    axes = inherited->mesh.axes();
    side.all_axes_read = inherited->all_axes_read;
  }
  // What is wrong with the axes is wrong with their product too: nothing is said of it twice.
  const bool axes_are_good = faults.reports() == reports_before;
  const auto ranks = fields.find("ranks");
  if (inherited != nullptr && !side.axes_given && !ranks) {
    side.mesh = inherited->mesh;
  } else {
    side.mesh = read_mesh(std::move(axes), axes_are_good ? ranks : std::nullopt, faults);
  }
  // Meshes of other sizes contradict each other, which is found where both are at hand.
  const bool inherits = inherited != nullptr && inherited->mesh.size() == side.mesh.size();
  if (inherits && !ranks && side.mesh.ranks().empty()) side.mesh = Mesh(side.mesh.axes(), inherited->mesh.ranks());
  if (const auto views = fields.find("views")) read_views(*views, side, axes_are_good, faults);
  if (inherits)
    for (const View& view : inherited->views)
      if (!side.has_view(view.name)) side.views.push_back(view);
  if (const auto format = fields.find("format"))
    if (const auto choice = read_choice(*format, format_names(), faults)) side.format = format_names()[*choice];
  if (const auto files = fields.find("files")) side.files = read_files(*files, side, role, faults);
  if (const auto path = fields.find("path")) side.path = read_string(*path, faults);
  if (const auto limit = fields.find("max_file_size")) {
    if (role == Role::kSource) {
      faults.add(ErrorCode::kSchema, *limit, "belongs to the target: a source's files are as they are");
    } else {
      side.max_file_size_bytes = read_size(*limit, faults);
    }
    if (fields.find("files"))
      faults.add(ErrorCode::kSchema, *limit, "excludes 'files': the numbered files have names of their own");
  }
  return side;
}

Side read_side(const Value& value, Role role, std::string_view source) {
  Faults faults(source);
  Side side = read_side(Node{&value, "", value.position}, role, nullptr, faults);
  faults.throw_if_any();
  return side;
}

void check_file_size_limit(const Side& source, const Side& target, const Node& target_node, Faults& faults) {
  if (!target.max_file_size_bytes) return;
  Node at = target_node;
  for (const Value::Member& member : target_node->object())
    if (member.key == "max_file_size") at = child(target_node, member);
  if (target.mesh.size() > 1)
    faults.add(ErrorCode::kSchema, at,
               fmt::format("numbered files are for a full target, this one has {} ranks; every rank has one file",
                           target.mesh.size()));
  const std::optional<std::string>& format = target.format ? target.format : source.format;
  if (format && *format != "safetensors")
    faults.add(ErrorCode::kSchema, at,
               fmt::format("numbered files are for safetensors, the target's format is {}", *format));
}

}  // namespace reshard::plan
