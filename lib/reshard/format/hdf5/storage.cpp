#include "reshard/format/hdf5/storage.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "reshard/base/error.hpp"
#include "reshard/format/hdf5/handle.hpp"
#include "reshard/format/hdf5/library.hpp"

namespace reshard::format::hdf5 {
namespace {

/// Deflate reaches 1032 : 1 at most.
constexpr std::int64_t kMaxRatio = 1100;

[[noreturn]] void fail(ErrorCode code, std::string message) {
  throw Error(Issue{code, "", kNoTensor, std::move(message)});
}

bool multiply(std::int64_t& value, hsize_t factor) {
  return factor <= static_cast<hsize_t>(INT64_MAX) &&
         !__builtin_mul_overflow(value, static_cast<std::int64_t>(factor), &value);
}

struct Extents {
  int rank = 0;
  std::array<hsize_t, H5S_MAX_RANK> dims{};
};

Extents extents_of(hid_t dataset) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  Extents out;
  if (!space || (out.rank = H5Sget_simple_extent_dims(space.get(), out.dims.data(), nullptr)) < 0)
    library_error(ErrorCode::kFormat, "", kNoTensor, "read its shape");
  return out;
}

std::string well_known_filter(H5Z_filter_t id) {
  switch (id) {
    case H5Z_FILTER_SZIP:
      return "szip";
    case H5Z_FILTER_NBIT:
      return "nbit";
    case H5Z_FILTER_SCALEOFFSET:
      return "scaleoffset";
    case 305:
      return "lzo";
    case 307:
      return "bzip2";
    case 32000:
      return "lzf";
    case 32001:
      return "blosc";
    case 32004:
      return "lz4";
    case 32008:
      return "bitshuffle";
    case 32013:
      return "zfp";
    case 32015:
      return "zstd";
    case 32026:
      return "blosc2";
    default:
      return "unknown";
  }
}

void check_filters(hid_t properties) {
  const int count = H5Pget_nfilters(properties);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    std::array<char, 256> name{};
    const H5Z_filter_t id = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr,
                                           name.size() - 1, name.data(), &config);
    if (id < 0) library_error(ErrorCode::kFormat, "", kNoTensor, "read its filters");
    const bool is_ours = id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32;
    if (!is_ours || H5Zfilter_avail(id) <= 0)
      fail(ErrorCode::kUnsupported,
           fmt::format("is stored through filter {} ({}); supported are deflate, shuffle and fletcher32", id,
                       name[0] != '\0' ? std::string(name.data()) : well_known_filter(id)));
  }
}

/// As many chunks as there should be can still lack one: a damaged index has it at coordinates that no element has, and
/// the library reads fill values in its place.
void check_every_chunk(hid_t dataset, const Extents& extents, const std::array<hsize_t, H5S_MAX_RANK>& chunk) {
  std::array<hsize_t, H5S_MAX_RANK> at{};
  const auto rank = static_cast<std::size_t>(extents.rank);
  for (std::size_t dim = rank; dim > 0;) {
    hsize_t bytes = 0;
    if (H5Dget_chunk_storage_size(dataset, at.data(), &bytes) < 0 || bytes == 0)
      library_error(ErrorCode::kFormat, "", kNoTensor,
                    fmt::format("find its chunk at [{}]", fmt::join(at.begin(), at.begin() + extents.rank, ", ")));
    for (dim = rank; dim > 0; --dim) {
      at[dim - 1] += chunk[dim - 1];
      if (at[dim - 1] < extents.dims[dim - 1]) break;
      at[dim - 1] = 0;
    }
  }
}

void check_chunks(hid_t dataset, hid_t properties, const Extents& extents, std::int64_t bytes,
                  std::int64_t file_bytes) {
  check_filters(properties);
  if (bytes == 0) return;
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  if (H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data()) != extents.rank)
    library_error(ErrorCode::kFormat, "", kNoTensor, "read its chunk shape");
  std::int64_t expected = 1;
  for (std::size_t dim = 0; dim < static_cast<std::size_t>(extents.rank); ++dim) {
    if (chunk[dim] == 0) fail(ErrorCode::kFormat, fmt::format("has chunks of 0 entries in dim {}", dim));
    if (!multiply(expected, extents.dims[dim] / chunk[dim] + (extents.dims[dim] % chunk[dim] != 0 ? 1 : 0)))
      fail(ErrorCode::kFormat, "has more than 2^63 chunks");
  }
  const Handle space(H5Dget_space(dataset), H5Sclose);
  hsize_t found = 0;
  if (H5Dget_num_chunks(dataset, space.get(), &found) < 0)
    library_error(ErrorCode::kFormat, "", kNoTensor, "count its chunks");
  if (found != static_cast<hsize_t>(expected))
    fail(ErrorCode::kFormat, fmt::format("has {} of {} chunks: data that were never written", found, expected));
  check_every_chunk(dataset, extents, chunk);
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (stored > static_cast<hsize_t>(file_bytes))
    fail(ErrorCode::kFormat, fmt::format("stores {} bytes, the file has {}", stored, file_bytes));
  if (bytes / kMaxRatio > static_cast<std::int64_t>(stored))
    fail(ErrorCode::kFormat,
         fmt::format("has {} bytes, of which the file stores {}: no filter shrinks so far", bytes, stored));
}

}  // namespace

std::int64_t declared_bytes(hid_t dataset) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  const Extents extents = extents_of(dataset);
  std::int64_t bytes = 1;
  bool is_empty = false;
  bool fits = multiply(bytes, H5Tget_size(type.get()));
  for (std::size_t dim = 0; dim < static_cast<std::size_t>(extents.rank); ++dim) {
    is_empty = is_empty || extents.dims[dim] == 0;
    fits = fits && (extents.dims[dim] == 0 || multiply(bytes, extents.dims[dim]));
  }
  if (!fits)
    fail(ErrorCode::kFormat, fmt::format("its shape [{}] has more than 2^63 bytes",
                                         fmt::join(extents.dims.begin(), extents.dims.begin() + extents.rank, ", ")));
  return is_empty ? 0 : bytes;
}

std::optional<std::int64_t> check_storage(hid_t dataset, std::int64_t file_bytes) {
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  if (!properties) library_error(ErrorCode::kFormat, "", kNoTensor, "read how it is stored");
  const std::int64_t bytes = declared_bytes(dataset);
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_CHUNKED) {
    check_chunks(dataset, properties.get(), extents_of(dataset), bytes, file_bytes);
    return std::nullopt;
  }
  if (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT)
    fail(ErrorCode::kFormat, "is stored in a layout that HDF5 does not define");
  if (bytes == 0) return std::nullopt;

  const haddr_t address = H5Dget_offset(dataset);
  if (layout == H5D_CONTIGUOUS && address == HADDR_UNDEF)
    fail(ErrorCode::kFormat, fmt::format("has no address for its {} bytes: data that were never written", bytes));
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (stored != static_cast<hsize_t>(bytes))
    fail(ErrorCode::kFormat, fmt::format("has {} bytes, of which the file stores {}", bytes, stored));
  if (layout == H5D_COMPACT) return std::nullopt;
  if (bytes > file_bytes || address > static_cast<haddr_t>(file_bytes - bytes))
    fail(ErrorCode::kFormat,
         fmt::format("its {} bytes at {} end beyond the file, which has {}", bytes, address, file_bytes));
  return static_cast<std::int64_t>(address);
}

}  // namespace reshard::format::hdf5
