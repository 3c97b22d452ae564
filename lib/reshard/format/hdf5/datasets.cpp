#include "reshard/format/hdf5/datasets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "reshard/format/hdf5/library.hpp"
#include "reshard/format/hdf5/slabs.hpp"

namespace reshard::format::hdf5 {
namespace {

constexpr std::size_t kMinCacheBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxCacheBytes = std::size_t{64} << 20;
/// Slots of the chunk cache: a prime, well above the chunks it can hold.
constexpr std::size_t kCacheSlots = 12421;

/// The chunks that one row of elements along dim 0 touches: a caller that reads rows in order then unpacks each chunk
/// once.
std::size_t cache_bytes(hid_t dataset) {
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  if (H5Pget_layout(properties.get()) != H5D_CHUNKED) return kMinCacheBytes;
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const Handle type(H5Dget_type(dataset), H5Tclose);
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int rank = H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  if (rank <= 0 || H5Pget_chunk(properties.get(), H5S_MAX_RANK, chunk.data()) != rank) return kMinCacheBytes;
  std::size_t bytes = H5Tget_size(type.get());
  for (std::size_t dim = 0; dim < static_cast<std::size_t>(rank); ++dim) {
    const hsize_t chunks = dim == 0 ? 1 : dims[dim] / chunk[dim] + 1;
    if (__builtin_mul_overflow(bytes, chunk[dim], &bytes) || __builtin_mul_overflow(bytes, chunks, &bytes))
      return kMaxCacheBytes;
  }
  return std::clamp(bytes, kMinCacheBytes, kMaxCacheBytes);
}

}  // namespace

Datasets::Datasets(const fs::path& path, const ReadOptions& options) : where_(path.string()), policy_(options) {
  const auto lock = lock_library();
  file_ = open_file(fs::absolute(path).string(), where_);
}

Datasets::~Datasets() {
  const auto lock = lock_library();
  type_.reset();
  dataset_.reset();
  file_.reset();
}

void Datasets::open(const std::string& address) {
  if (dataset_ && address == address_) return;
  address_.clear();
  type_.reset();
  dataset_.reset();
  const Handle access = policy_.dataset_access();
  {
    const Handle probe(H5Dopen2(file_.get(), address.c_str(), access.get()), H5Dclose);
    if (!probe) library_error(ErrorCode::kFormat, where_, kNoTensor, fmt::format("open the dataset {}", address));
    H5Pset_chunk_cache(access.get(), kCacheSlots, cache_bytes(probe.get()), 1.0);
  }
  dataset_ = Handle(H5Dopen2(file_.get(), address.c_str(), access.get()), H5Dclose);
  type_ = Handle(H5Dget_type(dataset_.get()), H5Tclose);
  const Handle space(H5Dget_space(dataset_.get()), H5Sclose);
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank = H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  if (!dataset_ || !type_ || rank < 0)
    library_error(ErrorCode::kFormat, where_, kNoTensor, fmt::format("open the dataset {}", address));
  shape_.assign(dims.begin(), dims.begin() + rank);
  element_bytes_ = static_cast<std::int64_t>(H5Tget_size(type_.get()));
  address_ = address;
}

void Datasets::read_elements(std::int64_t first, std::int64_t count, std::byte* out) {
  const Handle file_space(H5Dget_space(dataset_.get()), H5Sclose);
  for (const Slab& slab : slabs_of(shape_, first, count)) {
    const hsize_t elements = static_cast<hsize_t>(slab.elements());
    const Handle memory_space(H5Screate_simple(1, &elements, nullptr), H5Sclose);
    const std::vector<hsize_t> start(slab.start.begin(), slab.start.end());
    const std::vector<hsize_t> extent(slab.count.begin(), slab.count.end());
    // A scalar has no slab: its space stays selected as a whole.
    if (!memory_space || (!shape_.empty() && H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(),
                                                                 nullptr, extent.data(), nullptr) < 0))
      library_error(ErrorCode::kFormat, where_, kNoTensor, fmt::format("select a part of the dataset {}", address_));
    if (H5Dread(dataset_.get(), type_.get(), memory_space.get(), file_space.get(), H5P_DEFAULT, out) < 0)
      library_error(ErrorCode::kFormat, where_, kNoTensor, fmt::format("read the dataset {}", address_));
    out += static_cast<std::int64_t>(elements) * element_bytes_;
  }
}

void Datasets::read(const std::string& address, std::int64_t first_byte, std::span<std::byte> out) {
  const auto lock = lock_library();
  open(address);
  const std::int64_t size = std::ssize(out);
  const std::int64_t total = checked_mul(checked_product(shape_), element_bytes_);
  if (first_byte < 0 || first_byte > total || size > total - first_byte)
    throw Error(Issue{ErrorCode::kFormat, where_, kNoTensor,
                      fmt::format("the dataset {} has {} bytes, {} at {} were expected: the file has changed", address,
                                  total, size, first_byte)});
  if (out.empty()) return;
  const std::int64_t first = first_byte / element_bytes_;
  const std::int64_t count = ceil_div(first_byte + size, element_bytes_) - first;
  if (first * element_bytes_ == first_byte && count * element_bytes_ == size)
    return read_elements(first, count, out.data());
  std::vector<std::byte> whole(static_cast<std::size_t>(count * element_bytes_));
  read_elements(first, count, whole.data());
  std::copy_n(whole.begin() + (first_byte - first * element_bytes_), size, out.begin());
}

}  // namespace reshard::format::hdf5
