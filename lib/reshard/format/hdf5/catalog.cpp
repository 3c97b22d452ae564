#include "reshard/format/hdf5/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "reshard/format/hdf5/attributes.hpp"
#include "reshard/format/hdf5/external.hpp"
#include "reshard/format/hdf5/library.hpp"
#include "reshard/format/hdf5/storage.hpp"
#include "reshard/format/hdf5/types.hpp"

namespace reshard::format::hdf5 {
namespace {

constexpr std::size_t kMaxPathBytes = 64 * 1024;

/// What the names of a file may take, at their length and kNameBytes each. An honest file spends more than an eighth of
/// that on its links; groups that contain one another name few objects without end.
std::int64_t name_budget(std::int64_t file_bytes) {
  return (std::int64_t{8} << 20) + 8 * file_bytes;
}
constexpr std::int64_t kNameBytes = 64;

/// An object's identity: the number the library gives its file, and its address there.
using ObjectId = std::pair<unsigned long, haddr_t>;

/// One group on the way down.
struct Level {
  Handle group;
  std::string path;  ///< with a trailing '/', empty for the root
  ObjectId id;
  std::vector<std::string> links;
  std::size_t next = 0;
};

struct LinkCollector {
  std::vector<std::string> names;
  std::int64_t prefix_bytes = 0;
  std::int64_t budget_left = 0;
};

herr_t collect_link(hid_t, const char* name, const H5L_info_t*, void* out) {
  auto& collector = *static_cast<LinkCollector*>(out);
  collector.budget_left -= collector.prefix_bytes + std::ssize(std::string_view(name)) + kNameBytes;
  if (collector.budget_left < 0) return 1;
  collector.names.emplace_back(name);
  return 0;
}

std::string file_name(hid_t object) {
  const ssize_t length = H5Fget_name(object, nullptr, 0);
  if (length <= 0) return {};
  std::string out(static_cast<std::size_t>(length) + 1, '\0');
  H5Fget_name(object, out.data(), out.size());
  out.resize(static_cast<std::size_t>(length));
  return out;
}

/// A contiguous piece of the file that one object claims.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  haddr_t object = 0;
  std::string name;
};

[[noreturn]] void fail(ErrorCode code, std::string message) {
  throw Error(Issue{code, "", kNoTensor, std::move(message)});
}

class Walk {
 public:
  Walk(const fs::path& path, const ReadOptions& options)
      : where_(path.string()),
        path_(fs::absolute(path)),
        policy_(options),
        access_(policy_.link_access()),
        file_bytes_(File::open_to_read(path).size()),
        budget_left_(name_budget(file_bytes_)) {}

  FileCatalog run() {
    catalog_.bytes = file_bytes_;
    file_ = open_file(path_.string(), where_);
    descend(Handle(H5Oopen(file_.get(), "/", H5P_DEFAULT), H5Oclose), "");
    read_root();
    while (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.next == level.links.size()) {
        above_.erase(level.id);
        levels_.pop_back();
      } else {
        visit(level.path + level.links[level.next], level.links[level.next]);
      }
      if (budget_left_ < 0)
        throw Error(
            Issue{ErrorCode::kFormat, where_, kNoTensor,
                  fmt::format("its names take more than {} bytes, the file has {}: its groups contain one another",
                              name_budget(file_bytes_), file_bytes_)});
    }
    finish();
    return std::move(catalog_);
  }

 private:
  void read_root() {
    const Level& root = levels_.front();
    main_file_ = root.id.first;
    is_ours_ = has_attribute(root.group.get(), "reshard_version");
    if (!is_ours_) return;
    catalog_.axes = read_texts(root.group.get(), "axes");
    const std::optional<std::vector<std::int64_t>> rank = read_integers(root.group.get(), "rank");
    if (rank && rank->size() == 1) catalog_.rank = rank->front();
  }

  void visit(const std::string& path, const std::string& link) {
    const hid_t group = levels_.back().group.get();
    ++levels_.back().next;
    try {
      if (path.size() > kMaxPathBytes)
        fail(ErrorCode::kFormat, fmt::format("its path has more than {} bytes", kMaxPathBytes));
      visit_link(group, std::string(link), path);
    } catch (const Error& error) {
      Issue issue = error.issues().front();
      if (issue.code == ErrorCode::kInternal) throw;
      issue.where = where_;
      issue.tensor = path;
      if (issue.code == ErrorCode::kIo) throw Error(std::move(issue));  // says nothing about the file
      catalog_.refusals.push_back({path, std::move(issue)});
    }
  }

  void visit_link(hid_t group, const std::string& link, const std::string& path) {
    H5L_info_t info{};
    if (H5Lget_info(group, link.c_str(), &info, H5P_DEFAULT) < 0)
      library_error(ErrorCode::kFormat, "", kNoTensor, "read the link");
    if (info.type == H5L_TYPE_EXTERNAL) {
      check_external_link(group, link, info.u.val_size);
    } else if (info.type != H5L_TYPE_HARD && info.type != H5L_TYPE_SOFT) {
      fail(ErrorCode::kLink, fmt::format("is a link of the user-defined type {}", static_cast<int>(info.type)));
    }
    Handle object(H5Oopen(group, link.c_str(), access_.get()), H5Oclose);
    if (!object && info.type == H5L_TYPE_SOFT) fail_soft_link(group, link, info.u.val_size);
    if (!object) library_error(ErrorCode::kFormat, "", kNoTensor, "open it");
    const H5I_type_t kind = H5Iget_type(object.get());
    if (kind == H5I_GROUP) descend(std::move(object), path + '/');
    if (kind == H5I_DATASET) describe(object.get(), path);
    // A committed type is no tensor, and no rule can mean it.
  }

  void check_external_link(hid_t group, const std::string& link, std::size_t bytes) const {
    std::vector<char> value(bytes + 1);
    const char* file = nullptr;
    const char* target = nullptr;
    unsigned flags = 0;
    if (H5Lget_val(group, link.c_str(), value.data(), bytes, H5P_DEFAULT) < 0 ||
        H5Lunpack_elink_val(value.data(), bytes, &flags, &file, &target) < 0)
      library_error(ErrorCode::kFormat, "", kNoTensor, "read the external link");
    try {
      policy_.resolve(file_name(group), file);
    } catch (const Error& error) {
      const Issue& issue = error.issues().front();
      fail(issue.code, fmt::format("is an external link to {}: it {}", target, issue.message));
    }
  }

  [[noreturn]] static void fail_soft_link(hid_t group, const std::string& link, std::size_t bytes) {
    std::vector<char> target(bytes + 1);
    H5Lget_val(group, link.c_str(), target.data(), bytes, H5P_DEFAULT);
    fail(ErrorCode::kLink,
         fmt::format("is a soft link to '{}', which is not there or cannot be opened", target.data()));
  }

  void descend(Handle group, std::string path) {
    const ObjectId id = id_of(group.get());
    if (above_.contains(id)) fail(ErrorCode::kFormat, "is a group that contains itself");
    LinkCollector collector{{}, std::ssize(path), budget_left_};
    if (H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect_link, &collector) < 0)
      library_error(ErrorCode::kFormat, path.empty() ? where_ : "", kNoTensor, "list the group");
    budget_left_ = collector.budget_left;
    above_.insert(id);
    levels_.push_back({std::move(group), std::move(path), id, std::move(collector.names), 0});
  }

  ObjectId id_of(hid_t object) const {
    H5O_info_t info{};
    if (object < 0 || H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0)
      library_error(ErrorCode::kFormat, where_, kNoTensor, "open a group or dataset");
    return {info.fileno, info.addr};
  }

  void describe(hid_t dataset, const std::string& path) {
    const ObjectId id = id_of(dataset);
    const bool is_inside = id.first == main_file_;
    const Handle type(H5Dget_type(dataset), H5Tclose);
    const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
    if (!type || !properties) library_error(ErrorCode::kFormat, "", kNoTensor, "read its type and storage");
    const ElementType element = element_type(type.get(), read_text(dataset, "dtype"));

    StoredTensor tensor;
    tensor.name = path;
    tensor.dtype = element.dtype;
    tensor.big_endian = element.big_endian;
    // Members are checked before anything that would make the library open them.
    const fs::path holder = is_inside ? path_ : fs::path(file_name(dataset));
    const bool is_virtual = H5Pget_layout(properties.get()) == H5D_VIRTUAL;
    if (is_virtual) check_virtual_storage(policy_, holder, dataset, properties.get());
    tensor.shape = shape_of(dataset);
    if (H5Pget_external_count(properties.get()) > 0) {
      check_external_storage(policy_, holder, properties.get(), declared_bytes(dataset));
    } else if (!is_virtual) {
      tensor.offset = check_storage(dataset, is_inside ? file_bytes_ : File::open_to_read(holder).size());
      if (!is_inside) tensor.offset.reset();
    }
    if (is_ours_ && is_inside) read_own_attributes(dataset, tensor);
    if (tensor.offset)
      extents_.push_back({*tensor.offset, *tensor.offset + declared_bytes(dataset), id.second, tensor.name});
    catalog_.tensors.push_back(std::move(tensor));
  }

  static Shape shape_of(hid_t dataset) {
    const Handle space(H5Dget_space(dataset), H5Sclose);
    if (!space) library_error(ErrorCode::kFormat, "", kNoTensor, "read its shape");
    if (H5Sget_simple_extent_type(space.get()) == H5S_NULL)
      fail(ErrorCode::kDtype, "has no elements and no shape (null data space)");
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    const int rank = H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    if (rank < 0) library_error(ErrorCode::kFormat, "", kNoTensor, "read its shape");
    Shape out;
    for (std::size_t dim = 0; dim < static_cast<std::size_t>(rank); ++dim) {
      if (dims[dim] > static_cast<hsize_t>(INT64_MAX))
        fail(ErrorCode::kFormat, fmt::format("has {} entries in dim {}", dims[dim], dim));
      out.push_back(static_cast<std::int64_t>(dims[dim]));
    }
    return out;
  }

  static void read_own_attributes(hid_t dataset, StoredTensor& tensor) {
    if (has_attribute(dataset, "global_shape")) {
      const std::optional<std::vector<std::int64_t>> global = read_integers(dataset, "global_shape");
      if (!global || global->size() != tensor.shape.size() ||
          std::ranges::any_of(*global, [](std::int64_t n) { return n < 0; }))
        fail(ErrorCode::kFormat,
             fmt::format("its attribute global_shape is no list of {} extents", tensor.shape.size()));
      tensor.global_shape = global;
    }
    // Only an encoded path needs its name told; a link that somebody added has the name it was given.
    if (tensor.name.find('%') == std::string::npos) return;
    std::optional<std::string> name = read_text(dataset, "name");
    if (!name) return;
    tensor.address = std::exchange(tensor.name, std::move(*name));
  }

  void finish() {
    std::ranges::sort(catalog_.tensors, {}, &StoredTensor::name);
    const auto twice = std::ranges::adjacent_find(catalog_.tensors, {}, &StoredTensor::name);
    if (twice != catalog_.tensors.end())
      throw Error(Issue{ErrorCode::kFormat, where_, twice->name, "two datasets have this name"});
    std::ranges::sort(catalog_.refusals, {}, &Refusal::name);
    std::ranges::sort(extents_, {}, [](const Extent& e) { return std::tie(e.begin, e.end, e.object, e.name); });
    for (std::size_t i = 1; i < extents_.size(); ++i)
      if (extents_[i].begin < extents_[i - 1].end && extents_[i].object != extents_[i - 1].object)
        throw Error(Issue{ErrorCode::kFormat, where_, extents_[i].name,
                          fmt::format("begins at {} inside tensor '{}', which ends at {}", extents_[i].begin,
                                      escaped(extents_[i - 1].name), extents_[i - 1].end)});
  }

  std::string where_;
  fs::path path_;
  ExternalPolicy policy_;
  Handle access_;
  std::int64_t file_bytes_ = 0;
  std::int64_t budget_left_ = 0;
  FileCatalog catalog_;
  Handle file_;
  std::vector<Level> levels_;
  std::set<ObjectId> above_;  ///< groups from the root down to here
  std::vector<Extent> extents_;
  unsigned long main_file_ = 0;
  bool is_ours_ = false;
};

}  // namespace

FileCatalog walk_file(const fs::path& path, const ReadOptions& options) {
  return Walk(path, options).run();
}

}  // namespace reshard::format::hdf5
