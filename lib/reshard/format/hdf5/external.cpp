#include "reshard/format/hdf5/external.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/format/hdf5/library.hpp"
#include "reshard/format/hdf5/storage.hpp"

namespace reshard::format::hdf5 {
namespace {

[[noreturn]] void fail(ErrorCode code, std::string message) {
  throw Error(Issue{code, "", kNoTensor, std::move(message)});
}

/// The library asks before it opens the target of an external link; below 0 it does not.
herr_t on_external_link(const char* parent_file, const char*, const char* child_file, const char*, unsigned*, hid_t,
                        void* policy) {
  try {
    static_cast<const ExternalPolicy*>(policy)->resolve(parent_file, child_file);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

bool is_inside(const fs::path& root, const fs::path& path) {
  const fs::path relative = path.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

void follow_in(hid_t properties, const ExternalPolicy& policy) {
  if (H5Pset_elink_cb(properties, on_external_link, const_cast<ExternalPolicy*>(&policy)) < 0)
    internal_error("HDF5 link access: " + innermost_error());
}

/// Text that a property list hands out: asked for its length first.
template <typename Get>
std::string property_text(Get get) {
  const ssize_t length = get(nullptr, std::size_t{0});
  if (length < 0) library_error(ErrorCode::kFormat, "", kNoTensor, "read the members of a virtual dataset");
  std::string out(static_cast<std::size_t>(length) + 1, '\0');
  get(out.data(), out.size());
  out.resize(static_cast<std::size_t>(length));
  return out;
}

struct Mapping {
  std::string file;
  std::string dataset;
  Handle source;  ///< selection in the member
  Handle target;  ///< selection in the virtual dataset
};

std::vector<Mapping> mappings_of(hid_t creation_properties) {
  std::size_t count = 0;
  if (H5Pget_virtual_count(creation_properties, &count) < 0)
    library_error(ErrorCode::kFormat, "", kNoTensor, "read the members of a virtual dataset");
  std::vector<Mapping> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].file = property_text(
        [&](char* text, std::size_t size) { return H5Pget_virtual_filename(creation_properties, i, text, size); });
    out[i].dataset = property_text(
        [&](char* text, std::size_t size) { return H5Pget_virtual_dsetname(creation_properties, i, text, size); });
    out[i].source = Handle(H5Pget_virtual_srcspace(creation_properties, i), H5Sclose);
    out[i].target = Handle(H5Pget_virtual_vspace(creation_properties, i), H5Sclose);
    if (!out[i].source || !out[i].target)
      library_error(ErrorCode::kFormat, "", kNoTensor, "read the members of a virtual dataset");
  }
  return out;
}

/// The member has what the mapping takes from it.
void check_selection(const Mapping& mapping, hid_t member) {
  const Handle space(H5Dget_space(member), H5Sclose);
  const hssize_t wanted = H5Sget_select_npoints(mapping.target.get());
  if (H5Sget_select_type(mapping.source.get()) == H5S_SEL_ALL) {
    const hssize_t held = H5Sget_simple_extent_npoints(space.get());
    if (held != wanted)
      fail(ErrorCode::kFormat, fmt::format("member {} of {} has {} elements, the mapping takes {}", mapping.dataset,
                                           mapping.file, held, wanted));
    return;
  }
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::array<hsize_t, H5S_MAX_RANK> extent{};
  std::array<hsize_t, H5S_MAX_RANK> first{};
  std::array<hsize_t, H5S_MAX_RANK> last{};
  if (H5Sget_select_type(mapping.source.get()) != H5S_SEL_HYPERSLABS ||
      H5Sget_select_bounds(mapping.source.get(), first.data(), last.data()) < 0 ||
      H5Sget_select_npoints(mapping.source.get()) != wanted)
    fail(ErrorCode::kUnsupported,
         fmt::format("takes a point or unlimited selection of member {} of {}", mapping.dataset, mapping.file));
  if (rank != H5Sget_simple_extent_ndims(mapping.source.get()) ||
      H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr) < 0)
    fail(ErrorCode::kFormat, fmt::format("member {} of {} has {} dims, the mapping {}", mapping.dataset, mapping.file,
                                         rank, H5Sget_simple_extent_ndims(mapping.source.get())));
  for (std::size_t dim = 0; dim < static_cast<std::size_t>(rank); ++dim)
    if (last[dim] >= extent[dim])
      fail(ErrorCode::kFormat, fmt::format("member {} of {} has {} entries in dim {}, entry {} is asked for",
                                           mapping.dataset, mapping.file, extent[dim], dim, last[dim]));
}

void check_member(const ExternalPolicy& policy, const fs::path& file, hid_t dataset, const Mapping& mapping) {
  Handle other;
  Handle own;
  fs::path path = file;
  if (mapping.file != ".") {
    path = policy.resolve(file, mapping.file);
    other = open_file(path.string(), "");
  } else {
    own = Handle(H5Iget_file_id(dataset), H5Fclose);
  }
  const Handle access = policy.dataset_access();
  const Handle member(H5Dopen2(other ? other.get() : own.get(), mapping.dataset.c_str(), access.get()), H5Dclose);
  if (!member)
    library_error(ErrorCode::kMissing, "", kNoTensor,
                  fmt::format("open member {} of {}", mapping.dataset, mapping.file));
  const Handle properties(H5Dget_create_plist(member.get()), H5Pclose);
  if (H5Pget_layout(properties.get()) == H5D_VIRTUAL || H5Pget_external_count(properties.get()) > 0)
    fail(ErrorCode::kUnsupported,
         fmt::format("member {} of {} is itself virtual or stored in other files", mapping.dataset, mapping.file));
  check_storage(member.get(), File::open_to_read(path).size());
  check_selection(mapping, member.get());
}

/// Every element of the dataset is in the target of some mapping.
void check_filled(hid_t dataset, const std::vector<Mapping>& mappings) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const hssize_t elements = H5Sget_simple_extent_npoints(space.get());
  H5Sselect_none(space.get());
  Handle filled(H5Scopy(space.get()), H5Sclose);
  for (const Mapping& mapping : mappings) {
    const H5S_sel_type kind = H5Sget_select_type(mapping.target.get());
    if (kind == H5S_SEL_ALL) return;
    if (kind != H5S_SEL_HYPERSLABS || H5Sget_select_npoints(mapping.target.get()) < 0)
      fail(ErrorCode::kUnsupported, "is a virtual dataset of point or unlimited selections");
    filled = H5Sget_select_npoints(filled.get()) == 0
                 ? Handle(H5Scopy(mapping.target.get()), H5Sclose)
                 : Handle(H5Scombine_select(filled.get(), H5S_SELECT_OR, mapping.target.get()), H5Sclose);
    if (!filled) library_error(ErrorCode::kFormat, "", kNoTensor, "join the members of a virtual dataset");
  }
  const hssize_t covered = H5Sget_select_npoints(filled.get());
  if (covered != elements)
    fail(ErrorCode::kFormat,
         fmt::format("is a virtual dataset whose members fill {} of {} elements", covered, elements));
}

}  // namespace

ExternalPolicy::ExternalPolicy(const ReadOptions& options)
    : allowed_(options.allow_external), root_(options.root.empty() ? fs::path() : fs::weakly_canonical(options.root)) {}

fs::path ExternalPolicy::resolve(const fs::path& from_file, std::string_view name) const {
  if (!allowed_)
    fail(ErrorCode::kLink,
         fmt::format("names the file '{}'; --allow-external follows it inside the source directory", name));
  const fs::path path = (from_file.parent_path() / name).lexically_normal();
  if (root_.empty() || !is_inside(root_, fs::weakly_canonical(path)))
    fail(ErrorCode::kLink,
         fmt::format("names the file '{}' outside the checkpoint directory {}", name, root_.string()));
  try {
    File::open_to_read(path);
  } catch (const Error& error) {
    const Issue& issue = error.issues().front();
    fail(issue.code, fmt::format("needs the file '{}': {}", name, issue.message));
  }
  return path;
}

Handle ExternalPolicy::link_access() const {
  Handle access(H5Pcreate(H5P_LINK_ACCESS), H5Pclose);
  follow_in(access.get(), *this);
  return access;
}

Handle ExternalPolicy::dataset_access() const {
  Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  follow_in(access.get(), *this);
  if (H5Pset_efile_prefix(access.get(), "${ORIGIN}") < 0) internal_error("HDF5 dataset access: " + innermost_error());
  return access;
}

void check_external_storage(const ExternalPolicy& policy, const fs::path& file, hid_t creation_properties,
                            std::int64_t bytes) {
  const int count = H5Pget_external_count(creation_properties);
  std::int64_t held = 0;
  for (int i = 0; i < count; ++i) {
    std::array<char, 4096> name{};
    off_t offset = 0;
    hsize_t size = 0;
    if (H5Pget_external(creation_properties, static_cast<unsigned>(i), name.size() - 1, name.data(), &offset, &size) <
        0)
      library_error(ErrorCode::kFormat, "", kNoTensor, "read the list of external files");
    const fs::path path = policy.resolve(file, name.data());
    const std::int64_t file_bytes = File::open_to_read(path).size();
    const std::int64_t rest = file_bytes - offset;
    const bool is_open_ended = size == H5F_UNLIMITED;
    if (offset < 0 || rest < 0 || (!is_open_ended && size > static_cast<hsize_t>(rest)))
      fail(ErrorCode::kFormat,
           fmt::format("needs {} bytes at {} of the file '{}', which has {}", size, offset, name.data(), file_bytes));
    held = checked_add(held, is_open_ended ? rest : static_cast<std::int64_t>(size));
  }
  if (held < bytes) fail(ErrorCode::kFormat, fmt::format("has {} bytes, its external files hold {}", bytes, held));
}

void check_virtual_storage(const ExternalPolicy& policy, const fs::path& file, hid_t dataset,
                           hid_t creation_properties) {
  const std::vector<Mapping> mappings = mappings_of(creation_properties);
  if (!policy.allowed()) {
    std::string members;
    for (const Mapping& mapping : mappings) {
      if (members.find('\'' + mapping.file + '\'') != std::string::npos) continue;
      std::error_code ignored;
      const bool is_there = mapping.file == "." || fs::exists(file.parent_path() / mapping.file, ignored);
      members +=
          fmt::format("{}'{}'{}", members.empty() ? "" : ", ", mapping.file, is_there ? "" : " (which is not there)");
    }
    fail(ErrorCode::kLink,
         fmt::format("is a virtual dataset over {}; --allow-external follows it inside the source directory", members));
  }
  for (const Mapping& mapping : mappings) {
    if (mapping.file.find('%') != std::string::npos || mapping.dataset.find('%') != std::string::npos)
      fail(ErrorCode::kUnsupported,
           fmt::format("is a virtual dataset with the name pattern {} of {}", mapping.dataset, mapping.file));
    check_member(policy, file, dataset, mapping);
  }
  check_filled(dataset, mappings);
}

}  // namespace reshard::format::hdf5
