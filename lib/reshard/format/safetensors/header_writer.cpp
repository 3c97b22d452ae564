#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <tuple>
#include <vector>

#include "reshard/base/checked.hpp"
#include "reshard/base/json.hpp"
#include "reshard/format/safetensors/dtypes.hpp"
#include "reshard/format/safetensors/header.hpp"

namespace reshard::format::safetensors {
namespace {

std::vector<std::size_t> data_order(const std::vector<NewTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto is_before = [&](std::size_t a, std::size_t b) {
    const std::int64_t a_bytes = size_bytes(tensors[a].dtype);
    const std::int64_t b_bytes = size_bytes(tensors[b].dtype);
    return std::tie(b_bytes, tensors[a].name) < std::tie(a_bytes, tensors[b].name);
  };
  // Tensors come by name: with one dtype they are in order.
  if (!std::is_sorted(order.begin(), order.end(), is_before)) std::sort(order.begin(), order.end(), is_before);
  return order;
}

std::string metadata_entry(const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::string> kept;
  for (const auto& [key, text] : metadata)
    if (!key.starts_with("DCP_")) kept.emplace(key, text);
  kept["format"] = "pt";
  std::string out;
  for (const auto& [key, text] : kept)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", json_string(key), json_string(text));
  return fmt::format("\"__metadata__\":{{{}}}", out);
}

/// Roughly: names with many escapes are longer.
std::size_t most_bytes(const NewFile& file) {
  constexpr std::size_t kEntryBytes = 128;
  constexpr std::size_t kExtentBytes = 20;
  std::size_t out = kEntryBytes;
  for (const NewTensor& tensor : file.tensors)
    out += kEntryBytes + tensor.name.size() + kExtentBytes * tensor.shape.size();
  return out;
}

}  // namespace

WrittenHeader write_header(const NewFile& file, const std::string& path) {
  WrittenHeader out;
  out.layout.offsets.resize(file.tensors.size());
  constexpr std::size_t kLengthBytes = 8;
  std::string& json = out.bytes;   // behind its length
  json.reserve(most_bytes(file));  // what stays unused of it takes no memory
  json.assign(kLengthBytes, '\0');
  json += '{' + metadata_entry(file.metadata);
  std::int64_t at = 0;
  for (const std::size_t i : data_order(file.tensors)) {
    const NewTensor& tensor = file.tensors[i];
    const std::int64_t end = checked_add(at, payload_bytes(tensor.dtype, tensor.shape));
    fmt::format_to(std::back_inserter(json), ",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                   json_string(tensor.name), header_name(tensor.dtype).value(), fmt::join(tensor.shape, ","), at, end);
    out.layout.offsets[i] = at;
    at = end;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::uint64_t length = json.size() - kLengthBytes;
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes))
    throw Error(
        Issue{ErrorCode::kUnsupported, path, kNoTensor,
              fmt::format("its header would have {} bytes ({} tensors); safetensors allows {}: write more files",
                          length, file.tensors.size(), kMaxHeaderBytes)});

  for (std::size_t i = 0; i < kLengthBytes; ++i, length >>= 8) json[i] = static_cast<char>(length & 0xff);
  const std::int64_t data_begin = std::ssize(out.bytes);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const bool is_empty = checked_product(file.tensors[i].shape) == 0;
    out.layout.offsets[i] = is_empty ? 0 : checked_add(data_begin, out.layout.offsets[i]);
  }
  out.layout.bytes = checked_add(data_begin, at);
  return out;
}

}  // namespace reshard::format::safetensors
