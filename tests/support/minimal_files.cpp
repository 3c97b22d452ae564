#include "support/minimal_files.hpp"

#include <hdf5.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace reshard::minimal {
namespace {

namespace fs = std::filesystem;

std::string changed(std::string text, int (*change)(int)) {
  std::transform(text.begin(), text.end(), text.begin(), [&](unsigned char c) { return static_cast<char>(change(c)); });
  return text;
}

void write_safetensors(const fs::path& path, const Tensors& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::vector<std::byte> bytes;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = bytes.size();
    bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    header[name] = {{"dtype", changed(tensor.dtype, std::toupper)},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, bytes.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), 8);
  out << text;
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

Tensors read_safetensors(const fs::path& path) {
  const std::vector<std::byte> file = read_bytes(path);
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), 8);
  const auto header = nlohmann::json::parse(std::string(reinterpret_cast<const char*>(file.data()) + 8, size));
  const auto data = file.begin() + 8 + static_cast<std::ptrdiff_t>(size);
  Tensors out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    out[name] = {
        changed(entry["dtype"].get<std::string>(), std::tolower),
        entry["shape"].get<Shape>(),
        {data + entry["data_offsets"][0].get<std::ptrdiff_t>(), data + entry["data_offsets"][1].get<std::ptrdiff_t>()}};
  }
  return out;
}

hid_t checked(hid_t id) {
  if (id < 0) throw std::runtime_error("an HDF5 call failed");
  return id;
}

hid_t native_type(const std::string& dtype) {
  const std::map<std::string, hid_t> types = {{"u8", H5T_STD_U8LE},   {"i16", H5T_STD_I16LE},  {"i32", H5T_STD_I32LE},
                                              {"i64", H5T_STD_I64LE}, {"f32", H5T_IEEE_F32LE}, {"f64", H5T_IEEE_F64LE}};
  return types.at(dtype);
}

void write_hdf5(const fs::path& path, const Tensors& tensors) {
  const hid_t file = checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  for (const auto& [name, tensor] : tensors) {
    const std::vector<hsize_t> extents(tensor.shape.begin(), tensor.shape.end());
    const hid_t space =
        checked(tensor.shape.empty() ? H5Screate(H5S_SCALAR)
                                     : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
    const hid_t type = native_type(tensor.dtype);
    const hid_t dataset = checked(H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    if (!tensor.bytes.empty()) checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()));
    H5Dclose(dataset);
    H5Sclose(space);
  }
  checked(H5Fclose(file));
}

herr_t read_one(hid_t group, const char* name, const H5L_info_t*, void* out) {
  const hid_t dataset = checked(H5Dopen2(group, name, H5P_DEFAULT));
  const hid_t space = checked(H5Dget_space(dataset));
  const hid_t type = checked(H5Dget_type(dataset));
  std::vector<hsize_t> extents(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  Tensor tensor;
  tensor.shape.assign(extents.begin(), extents.end());
  tensor.bytes.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type));
  if (!tensor.bytes.empty()) checked(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()));
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(dataset);
  (*static_cast<Tensors*>(out))[name] = std::move(tensor);
  return 0;
}

Tensors read_hdf5(const fs::path& path) {
  Tensors out;
  const hid_t file = checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  checked(H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, read_one, &out));
  H5Fclose(file);
  return out;
}

}  // namespace

std::vector<std::byte> read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

void write(const fs::path& path, const std::string& format, const Tensors& tensors) {
  fs::create_directories(path.parent_path());
  format == "hdf5" ? write_hdf5(path, tensors) : write_safetensors(path, tensors);
}

Tensors read(const fs::path& path, const std::string& format) {
  return format == "hdf5" ? read_hdf5(path) : read_safetensors(path);
}

}  // namespace reshard::minimal
