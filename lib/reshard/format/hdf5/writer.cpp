#include "reshard/format/hdf5/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "reshard/base/utf8.hpp"
#include "reshard/format/hdf5/attributes.hpp"
#include "reshard/format/hdf5/library.hpp"
#include "reshard/format/hdf5/names.hpp"
#include "reshard/format/hdf5/types.hpp"

namespace reshard::format::hdf5 {
namespace {

/// Encoded, a name can be three times as long; it must fit an object header message of 64 KiB.
constexpr std::size_t kMaxNameBytes = 16384;
constexpr std::int64_t kConventionsVersion = 1;

Handle checked(Handle handle, const char* what) {
  if (!handle) internal_error(fmt::format("HDF5 {}: {}", what, innermost_error()));
  return handle;
}

void checked(herr_t status, const char* what) {
  if (status < 0) internal_error(fmt::format("HDF5 {}: {}", what, innermost_error()));
}

/// Creation properties of a file (its root group) or a group.
Handle group_properties(hid_t property_class) {
  Handle properties = checked(Handle(H5Pcreate(property_class), H5Pclose), "group properties");
  checked(H5Pset_obj_track_times(properties.get(), 0), "group times");
  checked(H5Pset_link_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED), "creation order");
  return properties;
}

Handle dataset_properties() {
  Handle properties = checked(Handle(H5Pcreate(H5P_DATASET_CREATE), H5Pclose), "dataset properties");
  checked(H5Pset_obj_track_times(properties.get(), 0), "dataset times");
  checked(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), "layout");
  checked(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), "allocation time");
  checked(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), "fill time");
  return properties;
}

Handle link_properties() {
  Handle properties = checked(Handle(H5Pcreate(H5P_LINK_CREATE), H5Pclose), "link properties");
  checked(H5Pset_char_encoding(properties.get(), H5T_CSET_UTF8), "character encoding");
  return properties;
}

/// One file being made.
class Writer {
 public:
  Writer(const fs::path& path, std::string where) : where_(std::move(where)) {
    const Handle properties = group_properties(H5P_FILE_CREATE);
    // Not the default driver: that one insists on the real path of a file in memory, which has none.
    const Handle access = file_access();
    checked(H5Pset_fapl_stdio(access.get()), "file driver");
    errno = 0;
    file_ = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, properties.get(), access.get()), H5Fclose);
    if (!file_ && errno != 0) io_error(where_, "create it", errno);  // which the library keeps to itself
    if (!file_) library_error(ErrorCode::kIo, where_, kNoTensor, "create it");
  }

  void add_root_attributes(const NewFile& file, std::int64_t rank) {
    write_texts(file_.get(), "axes", file.axes, where_);
    write_integer(file_.get(), "rank", rank, where_);
    write_integer(file_.get(), "reshard_version", kConventionsVersion, where_);
  }

  /// Returns where its bytes begin, 0 for a zero-size tensor. Early allocation fixes the place at creation.
  std::int64_t add(const NewTensor& tensor, const std::string& path) {
    make_groups(path);
    const std::vector<hsize_t> dims(tensor.shape.begin(), tensor.shape.end());
    const Handle space =
        checked(dims.empty() ? Handle(H5Screate(H5S_SCALAR), H5Sclose)
                             : Handle(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose),
                "data space");
    const Handle type = make_type(tensor.dtype);
    const Handle dataset(
        H5Dcreate2(file_.get(), path.c_str(), type.get(), space.get(), links_.get(), datasets_.get(), H5P_DEFAULT),
        H5Dclose);
    if (!dataset) library_error(ErrorCode::kIo, where_, tensor.name, "create the dataset");
    write_text(dataset.get(), "dtype", name(tensor.dtype), where_);
    write_integers(dataset.get(), "global_shape", tensor.global_shape, where_);
    if (path != tensor.name) write_text(dataset.get(), "name", tensor.name, where_);
    if (checked_product(tensor.shape) == 0) return 0;
    const haddr_t address = H5Dget_offset(dataset.get());
    if (address == HADDR_UNDEF) library_error(ErrorCode::kIo, where_, tensor.name, "find its place in the file");
    return static_cast<std::int64_t>(address);
  }

  void close() {
    errno = 0;
    if (file_.reset()) return;
    if (errno != 0) io_error(where_, "close it", errno);  // the library gives no reason: its metadata are written here
    library_error(ErrorCode::kIo, where_, kNoTensor, "close it");
  }

 private:
  /// Groups that the library makes of its own accord would carry times.
  void make_groups(const std::string& path) {
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      std::string group = path.substr(0, slash);
      if (made_.contains(group)) continue;
      const Handle id(H5Gcreate2(file_.get(), group.c_str(), links_.get(), groups_.get(), H5P_DEFAULT), H5Gclose);
      if (!id) library_error(ErrorCode::kIo, where_, kNoTensor, fmt::format("create the group {}", group));
      made_.insert(std::move(group));
    }
  }

  std::string where_;
  Handle file_;
  Handle links_ = link_properties();
  Handle groups_ = group_properties(H5P_GROUP_CREATE);
  Handle datasets_ = dataset_properties();
  std::unordered_set<std::string> made_;
};

}  // namespace

void check_tensor(const NewTensor& tensor) {
  if (tensor.shape.size() > H5S_MAX_RANK)
    throw Error(Issue{ErrorCode::kUnsupported, "", tensor.name,
                      fmt::format("has {} dims; HDF5 stores at most {}", tensor.shape.size(), H5S_MAX_RANK)});
  if (tensor.name.size() > kMaxNameBytes)
    throw Error(Issue{ErrorCode::kUnsupported, "", tensor.name.substr(0, 64) + "...",
                      fmt::format("its name has {} bytes; in HDF5 at most {}", tensor.name.size(), kMaxNameBytes)});
  if (tensor.name.find('\0') != std::string::npos)
    throw Error(Issue{ErrorCode::kUnsupported, "", tensor.name, "HDF5 cannot store a NUL in a name"});
  if (!is_utf8(tensor.name))
    throw Error(Issue{ErrorCode::kUnsupported, "", tensor.name,
                      "names are stored as UTF-8, which this is not; `rename` gives it another"});
}

FileLayout create_file(const fs::path& path, const std::string& where, const NewFile& file, std::int64_t rank) {
  for (const NewTensor& tensor : file.tensors) check_tensor(tensor);
  std::vector<std::size_t> order(file.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::string_view(file.tensors[i].name); });
  std::vector<std::string_view> names;
  for (const NewTensor& tensor : file.tensors) names.push_back(tensor.name);
  const std::vector<std::string> paths = stored_paths(names);

  FileLayout layout;
  layout.offsets.resize(file.tensors.size());
  {
    const auto lock = lock_library();
    Writer writer(path, where);
    writer.add_root_attributes(file, rank);
    for (const std::size_t i : order) layout.offsets[i] = writer.add(file.tensors[i], paths[i]);
    writer.close();
  }
  layout.bytes = File::open_to_read(path).size();
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const NewTensor& tensor = file.tensors[i];
    const std::int64_t end = layout.offsets[i] + payload_bytes(tensor.dtype, tensor.shape);
    if (end > layout.bytes)
      internal_error(fmt::format("tensor '{}' ends at {} in {}, which has {} bytes", escaped(tensor.name), end, where,
                                 layout.bytes));
  }
  return layout;
}

}  // namespace reshard::format::hdf5
