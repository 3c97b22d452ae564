#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "reshard/base/json.hpp"
#include "reshard/format/safetensors/dcp.hpp"
#include "reshard/format/safetensors/dtypes.hpp"
#include "reshard/format/safetensors/header.hpp"

namespace reshard::format::safetensors {
namespace {

constexpr std::int64_t kMaxRank = 64;
/// A legal header is three levels deep.
constexpr int kDepth = 8;

[[noreturn]] void fail(ErrorCode code, const std::string& path, std::optional<std::string_view> tensor,
                       std::string message) {
  throw Error(Issue{code, path, std::optional<std::string>(tensor), std::move(message)});
}

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Builds the catalog while the header streams by; ranges are kept beside it, in the same order.
class HeaderHandler : public JsonHandler {
 public:
  HeaderHandler(const std::string& path, std::string_view text, FileCatalog& catalog) : path_(path), catalog_(catalog) {
    // A brace for every tensor, and at least so many bytes: lists that grow would take twice the memory.
    constexpr std::size_t kLeastBytes = 48;
    const auto braces = static_cast<std::size_t>(std::count(text.begin(), text.end(), '{'));
    const std::size_t most = std::min(braces, text.size() / kLeastBytes);
    catalog_.tensors.reserve(most);
    ranges_.reserve(most);
  }

  std::vector<Range> take_ranges() { return std::move(ranges_); }

  void on_null(Position) override { unexpected("null"); }
  void on_boolean(bool, Position) override { unexpected("a boolean"); }
  void on_float(double, std::string_view text, Position) override {
    unexpected(fmt::format("the number {}, which is no integer of 64 bits", text));
  }

  void on_integer(std::int64_t value, Position) override {
    if (place_ == Place::kShape) {
      if (value < 0) fail(ErrorCode::kFormat, path_, name_, fmt::format("its shape has the negative extent {}", value));
      if (std::ssize(shape_) == kMaxRank)
        fail(ErrorCode::kUnsupported, path_, name_, fmt::format("has more than {} dims", kMaxRank));
      shape_.push_back(value);
    } else if (place_ == Place::kOffsets) {
      if (value < 0)
        fail(ErrorCode::kFormat, path_, name_, fmt::format("data_offsets holds the negative number {}", value));
      if (offset_count_ < 2) offsets_[offset_count_] = value;
      ++offset_count_;
    } else {
      unexpected(fmt::format("the number {}", value));
    }
  }

  void on_string(std::string_view value, Position) override {
    if (place_ == Place::kMetadata) {
      catalog_.metadata.emplace(key_, value);
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      if (is_sub_byte(value))
        fail(ErrorCode::kDtype, path_, name_,
             fmt::format("has dtype {}: elements smaller than a byte are not supported", value));
      const std::optional<Dtype> dtype = dtype_from_header(value);
      if (!dtype) fail(ErrorCode::kFormat, path_, name_, fmt::format("has the unknown dtype {}", json_string(value)));
      tensor().dtype = *dtype;
      has_dtype_ = true;
    } else {
      unexpected(fmt::format("the text {}", json_string(value.substr(0, 64))));
    }
  }

  void on_key(std::string_view key, Position) override {
    if (place_ == Place::kTop) {
      name_ = key;
      return;
    }
    key_ = key;
    if (place_ == Place::kTensor && key != "dtype" && key != "shape" && key != "data_offsets")
      fail(ErrorCode::kFormat, path_, name_,
           fmt::format("has the unknown key {}, expected dtype, shape and data_offsets", json_string(key)));
  }

  void on_object_begin(Position) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && name_ == "__metadata__") {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      catalog_.tensors.emplace_back().name = name_;
      has_dtype_ = has_shape_ = has_offsets_ = false;
    } else {
      unexpected("an object");
    }
  }

  void on_object_end() override {
    if (place_ == Place::kTensor) {
      if (!has_dtype_) missing("dtype");
      if (!has_shape_) missing("shape");
      if (!has_offsets_) missing("data_offsets");
      ranges_.push_back({offsets_[0], offsets_[1]});
    }
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
  }

  void on_array_begin(Position) override {
    if (place_ == Place::kTensor && key_ == "shape") {
      place_ = Place::kShape;
      shape_.clear();
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      place_ = Place::kOffsets;
      offset_count_ = 0;
    } else {
      unexpected("a list");
    }
  }

  void on_array_end() override {
    if (place_ == Place::kShape) {
      tensor().shape = shape_;
      has_shape_ = true;
    } else {
      if (offset_count_ != 2)
        fail(ErrorCode::kFormat, path_, name_, fmt::format("data_offsets has {} numbers, expected 2", offset_count_));
      has_offsets_ = true;
    }
    place_ = Place::kTensor;
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };

  StoredTensor& tensor() { return catalog_.tensors.back(); }

  [[noreturn]] void missing(std::string_view key) const {
    fail(ErrorCode::kFormat, path_, name_, fmt::format("has no {}", key));
  }

  [[noreturn]] void unexpected(const std::string& found) const {
    switch (place_) {
      case Place::kMetadata:
        fail(ErrorCode::kFormat, path_, kNoTensor,
             fmt::format("__metadata__: key {} holds {}, expected a text", json_string(key_), found));
      case Place::kTop:
        if (name_ == "__metadata__")
          fail(ErrorCode::kFormat, path_, kNoTensor, fmt::format("__metadata__ is {}, expected an object", found));
        fail(ErrorCode::kFormat, path_, name_, fmt::format("its entry is {}, expected an object", found));
      case Place::kShape:
        fail(ErrorCode::kFormat, path_, name_, fmt::format("its shape holds {}, expected integers", found));
      case Place::kOffsets:
        fail(ErrorCode::kFormat, path_, name_, fmt::format("data_offsets holds {}, expected two integers", found));
      case Place::kTensor:
        fail(ErrorCode::kFormat, path_, name_,
             fmt::format("{} is {}, expected {}", key_, found, key_ == "dtype" ? "a text" : "a list of integers"));
      case Place::kOutside:
        break;
    }
    fail(ErrorCode::kFormat, path_, kNoTensor, fmt::format("the header is {}, expected an object", found));
  }

  const std::string& path_;
  FileCatalog& catalog_;
  std::vector<Range> ranges_;
  Place place_ = Place::kOutside;
  std::string name_;
  std::string key_;
  Shape shape_;
  std::array<std::int64_t, 2> offsets_{};
  std::size_t offset_count_ = 0;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

/// What stands in place of a checkpoint where the file begins with text: a pointer, a page of an error.
[[noreturn]] void fail_on_text(const File& file, std::int64_t file_bytes) {
  constexpr std::int64_t kShownBytes = 40;
  std::string text(static_cast<std::size_t>(std::min(file_bytes, kShownBytes)), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  text.erase(std::min(text.find_first_of("\r\n"), text.size()));
  fail(ErrorCode::kFormat, file.path().string(), kNoTensor,
       fmt::format("begins with the text '{}', {}", escaped(text),
                   text.starts_with("version https://git-lfs")
                       ? "a Git LFS pointer, whose content has to be fetched (git lfs pull)"
                       : "expected 8 bytes with the length of a safetensors header"));
}

std::string header_text(const File& file, std::int64_t file_bytes) {
  const std::string path = file.path().string();
  if (file_bytes < 8)
    fail(ErrorCode::kFormat, path, kNoTensor,
         fmt::format("has {} bytes, expected at least 8 for the length of the header", file_bytes));
  std::array<std::byte, 8> prefix{};
  file.read(0, prefix);
  std::uint64_t length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(prefix[i]);
  if (length < 2)
    fail(ErrorCode::kFormat, path, kNoTensor, fmt::format("its header has {} bytes, expected at least 2", length));
  const auto is_text = [](std::byte byte) {
    const auto c = std::to_integer<unsigned char>(byte);
    return (c >= ' ' && c <= '~') || c == '\t' || c == '\r' || c == '\n';
  };
  if (std::all_of(prefix.begin(), prefix.end(), is_text)) fail_on_text(file, file_bytes);
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes))
    fail(ErrorCode::kFormat, path, kNoTensor,
         fmt::format("its header has {} bytes, expected at most {}", length, kMaxHeaderBytes));
  const auto header_bytes = static_cast<std::int64_t>(length);
  if (header_bytes > file_bytes - 8)
    fail(ErrorCode::kFormat, path, kNoTensor,
         fmt::format("is truncated: its header has {} bytes, {} follow its length (the file has {})", header_bytes,
                     file_bytes - 8, file_bytes));
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  if (text[0] != '{')
    fail(ErrorCode::kFormat, path, kNoTensor,
         fmt::format("byte 8 is 0x{:02x}, expected '{{', the beginning of the header",
                     static_cast<unsigned char>(text[0])));
  return text;
}

/// Faults of the JSON text become faults of the file.
void parse_header(const std::string& path, std::string_view text, HeaderHandler& handler) {
  try {
    parse_json(text, path, {.depth = kDepth}, handler);
  } catch (const Error& error) {
    std::vector<Issue> issues = error.issues();
    for (Issue& issue : issues) {
      if (issue.code != ErrorCode::kSyntax && issue.code != ErrorCode::kDupKey) continue;
      issue.code = ErrorCode::kFormat;
      issue.message = "its header: " + issue.message;
    }
    throw Error(std::move(issues));
  }
}

/// Bytes of dtype and shape. The extents other than 0 must multiply within 63 bits too, so that strides can be computed
/// of every shape that passes.
std::int64_t declared_bytes(const std::string& path, const StoredTensor& tensor) {
  std::int64_t bytes = size_bytes(tensor.dtype);
  bool is_empty = false;
  for (const std::int64_t extent : tensor.shape) {
    if (extent == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      fail(ErrorCode::kFormat, path, tensor.name,
           fmt::format("shape [{}] of {}: its extents other than 0 make 2^63 bytes or more",
                       fmt::join(tensor.shape, ", "), name(tensor.dtype)));
    }
  }
  return is_empty ? 0 : bytes;
}

void check_range(const std::string& path, const StoredTensor& tensor, Range range, std::int64_t data_begin,
                 std::int64_t file_bytes) {
  const std::int64_t bytes = declared_bytes(path, tensor);
  if (range.begin > range.end)
    fail(ErrorCode::kFormat, path, tensor.name,
         fmt::format("data_offsets [{}, {}] end before they begin", range.begin, range.end));
  if (range.end - range.begin != bytes)
    fail(ErrorCode::kFormat, path, tensor.name,
         fmt::format("data_offsets [{}, {}] hold {} bytes, shape [{}] of {} needs {}", range.begin, range.end,
                     range.end - range.begin, fmt::join(tensor.shape, ", "), name(tensor.dtype), bytes));
  if (range.end > file_bytes - data_begin)
    fail(ErrorCode::kFormat, path, tensor.name,
         fmt::format("ends at byte {} of the data, which begins at {}, but the file has {} bytes: it is truncated",
                     range.end, data_begin, file_bytes));
}

/// Ranges follow each other from 0 to the end of the file.
void check_tiling(const std::string& path, const std::vector<StoredTensor>& tensors, const std::vector<Range>& ranges,
                  std::int64_t buffer_bytes) {
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto is_before = [&](std::size_t a, std::size_t b) {
    return std::tie(ranges[a].begin, ranges[a].end, tensors[a].name) <
           std::tie(ranges[b].begin, ranges[b].end, tensors[b].name);
  };
  // Most writers list tensors as their data lie.
  if (!std::is_sorted(order.begin(), order.end(), is_before)) std::sort(order.begin(), order.end(), is_before);
  std::int64_t at = 0;
  const std::string* previous = nullptr;
  for (const std::size_t i : order) {
    if (ranges[i].begin < at)
      fail(ErrorCode::kFormat, path, tensors[i].name,
           fmt::format("begins at byte {} of the data inside tensor '{}', which ends at {}: ranges overlap",
                       ranges[i].begin, escaped(*previous), at));
    if (ranges[i].begin > at)
      fail(ErrorCode::kFormat, path, tensors[i].name,
           fmt::format("begins at byte {} of the data, expected {}: there is a hole of {} bytes", ranges[i].begin, at,
                       ranges[i].begin - at));
    at = ranges[i].end;
    previous = &tensors[i].name;
  }
  if (at != buffer_bytes)
    fail(ErrorCode::kFormat, path, kNoTensor,
         fmt::format("the last tensor ends at byte {} of the data, of which the file has {}: {} bytes too many", at,
                     buffer_bytes, buffer_bytes - at));
}

/// Moves each tensor once: they are large.
void sort_by_name(std::vector<StoredTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto is_before = [&](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; };
  if (std::is_sorted(order.begin(), order.end(), is_before)) return;
  std::sort(order.begin(), order.end(), is_before);
  std::vector<StoredTensor> sorted;
  sorted.reserve(tensors.size());
  for (const std::size_t i : order) sorted.push_back(std::move(tensors[i]));
  tensors = std::move(sorted);
}

}  // namespace

FileCatalog read_header(const File& file) {
  const std::string path = file.path().string();
  FileCatalog catalog;
  catalog.bytes = file.size();
  std::vector<Range> ranges;
  std::int64_t data_begin = 0;
  {
    const std::string text = header_text(file, catalog.bytes);
    HeaderHandler handler(path, text, catalog);
    parse_header(path, text, handler);
    ranges = handler.take_ranges();
    data_begin = 8 + std::ssize(text);
  }
  const std::int64_t buffer_bytes = catalog.bytes - data_begin;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    check_range(path, catalog.tensors[i], ranges[i], data_begin, catalog.bytes);
  check_tiling(path, catalog.tensors, ranges, buffer_bytes);
  refuse_dcp_shard(path, catalog.metadata);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].begin != ranges[i].end) catalog.tensors[i].offset = data_begin + ranges[i].begin;
  sort_by_name(catalog.tensors);
  return catalog;
}

}  // namespace reshard::format::safetensors
