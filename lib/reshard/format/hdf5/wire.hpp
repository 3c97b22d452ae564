#pragma once
// What parent and child say to each other, as bytes: numbers of 8 bytes little-endian, texts behind their length.
//
// Message: 8 bytes length, then as many bytes. Request: encode(Request). Reply: one byte, kOk or kFailed; then a
// catalog, raw tensor bytes, or issues. The parent trusts nothing in a reply.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/format/format.hpp"

namespace reshard::format::hdf5::wire {

constexpr char kOk = 0;
constexpr char kFailed = 1;

/// `address` empty: the catalog of the file.
struct Request {
  std::string path;
  std::string root;
  bool allow_external = false;
  std::string address;
  std::int64_t first_byte = 0;
  std::int64_t count = 0;
};

std::string encode(const Request& request);
std::string encode(const FileCatalog& catalog);
std::string encode(const std::vector<Issue>& issues);

/// Decoders return nothing for bytes that the encoder cannot have made, and for catalogs whose tensors do not lie
/// within `catalog.bytes`.
std::optional<Request> decode_request(std::string_view bytes);
std::optional<FileCatalog> decode_catalog(std::string_view bytes);
std::optional<std::vector<Issue>> decode_issues(std::string_view bytes);

}  // namespace reshard::format::hdf5::wire
