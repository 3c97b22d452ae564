#include "reshard/format/hdf5/wire.hpp"

#include <utility>

namespace reshard::format::hdf5::wire {
namespace {

constexpr std::int64_t kAbsent = -1;

class Encoder {
 public:
  void number(std::int64_t value) {
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i & 0xff);
  }
  void text(std::string_view value) {
    number(std::ssize(value));
    out_ += value;
  }
  void numbers(const std::vector<std::int64_t>& values) {
    number(std::ssize(values));
    for (const std::int64_t value : values) number(value);
  }
  void issue(const Issue& value) {
    text(code_name(value.code));
    text(value.where);
    number(value.tensor ? 1 : 0);
    if (value.tensor) text(*value.tensor);
    text(value.message);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// After the first fault every read gives nothing and ok() is false.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  std::int64_t number() {
    if (!take_ok(8)) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(8);
    return static_cast<std::int64_t>(value);
  }
  std::string text() {
    const std::int64_t length = number();
    if (!take_ok(length)) return {};
    std::string out(rest_.substr(0, static_cast<std::size_t>(length)));
    rest_.remove_prefix(out.size());
    return out;
  }
  bool flag() {
    const std::int64_t value = number();
    require(value == 0 || value == 1);
    return value != 0;
  }
  /// How many items follow, each of at least `item_bytes`: never more than the bytes left can hold.
  std::size_t count(std::int64_t item_bytes) {
    const std::int64_t value = number();
    if (value < 0 || value > std::ssize(rest_) / item_bytes) ok_ = false;
    return ok_ ? static_cast<std::size_t>(value) : 0;
  }
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> out(count(8));
    for (std::int64_t& value : out) value = number();
    return out;
  }
  Issue issue() {
    Issue out;
    const std::string code = text();
    out.code = code_from_name(code);
    require(code_name(out.code) == code);
    out.where = text();
    if (flag()) out.tensor = text();
    out.message = text();
    return out;
  }
  void require(bool condition) { ok_ = ok_ && condition; }
  bool ok() const { return ok_; }
  bool is_done() const { return ok_ && rest_.empty(); }

 private:
  bool take_ok(std::int64_t bytes) {
    if (bytes < 0 || bytes > std::ssize(rest_)) ok_ = false;
    return ok_;
  }

  std::string_view rest_;
  bool ok_ = true;
};

/// Extents multiply within 63 bits, zeros left out, and the bytes lie in the file.
bool is_sound(const StoredTensor& tensor, std::int64_t file_bytes) {
  std::int64_t bytes = size_bytes(tensor.dtype);
  for (const std::int64_t extent : tensor.shape)
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))) return false;
  if (!tensor.offset) return true;
  return *tensor.offset >= 0 && bytes <= file_bytes && *tensor.offset <= file_bytes - bytes;
}

StoredTensor decode_tensor(Decoder& in, std::int64_t file_bytes) {
  StoredTensor out;
  out.name = in.text();
  const std::int64_t dtype = in.number();
  in.require(dtype >= 0 && dtype < std::ssize(all_dtypes()));
  if (in.ok()) out.dtype = all_dtypes()[static_cast<std::size_t>(dtype)];
  out.shape = in.numbers();
  if (const std::int64_t offset = in.number(); offset != kAbsent) out.offset = offset;
  out.big_endian = in.flag();
  out.address = in.text();
  if (in.flag()) out.global_shape = in.numbers();
  in.require(is_sound(out, file_bytes));
  return out;
}

}  // namespace

std::string encode(const Request& request) {
  Encoder out;
  out.text(request.path);
  out.text(request.root);
  out.number(request.allow_external ? 1 : 0);
  out.text(request.address);
  out.number(request.first_byte);
  out.number(request.count);
  return out.take();
}

std::string encode(const FileCatalog& catalog) {
  Encoder out;
  out.number(catalog.bytes);
  out.number(std::ssize(catalog.tensors));
  for (const StoredTensor& tensor : catalog.tensors) {
    out.text(tensor.name);
    out.number(static_cast<std::int64_t>(tensor.dtype));
    out.numbers(tensor.shape);
    out.number(tensor.offset.value_or(kAbsent));
    out.number(tensor.big_endian ? 1 : 0);
    out.text(tensor.address);
    out.number(tensor.global_shape ? 1 : 0);
    if (tensor.global_shape) out.numbers(*tensor.global_shape);
  }
  out.number(std::ssize(catalog.refusals));
  for (const Refusal& refusal : catalog.refusals) {
    out.text(refusal.name);
    out.issue(refusal.issue);
  }
  out.number(catalog.axes ? 1 : 0);
  if (catalog.axes) {
    out.number(std::ssize(*catalog.axes));
    for (const std::string& axis : *catalog.axes) out.text(axis);
  }
  out.number(catalog.rank ? 1 : 0);
  if (catalog.rank) out.number(*catalog.rank);
  return out.take();
}

std::string encode(const std::vector<Issue>& issues) {
  Encoder out;
  out.number(std::ssize(issues));
  for (const Issue& issue : issues) out.issue(issue);
  return out.take();
}

std::optional<Request> decode_request(std::string_view bytes) {
  Decoder in(bytes);
  Request out;
  out.path = in.text();
  out.root = in.text();
  out.allow_external = in.flag();
  out.address = in.text();
  out.first_byte = in.number();
  out.count = in.number();
  return in.is_done() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<FileCatalog> decode_catalog(std::string_view bytes) {
  Decoder in(bytes);
  FileCatalog out;
  out.bytes = in.number();
  const std::size_t tensors = in.count(8 * 7);
  for (std::size_t i = 0; i < tensors && in.ok(); ++i) out.tensors.push_back(decode_tensor(in, out.bytes));
  const std::size_t refusals = in.count(8 * 5);
  for (std::size_t i = 0; i < refusals && in.ok(); ++i) {
    Refusal& refusal = out.refusals.emplace_back();
    refusal.name = in.text();
    refusal.issue = in.issue();
  }
  if (in.flag()) {
    out.axes.emplace();
    const std::size_t axes = in.count(8);
    for (std::size_t i = 0; i < axes; ++i) out.axes->push_back(in.text());
  }
  if (in.flag()) out.rank = in.number();
  return in.is_done() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<std::vector<Issue>> decode_issues(std::string_view bytes) {
  Decoder in(bytes);
  std::vector<Issue> out(in.count(8 * 4));
  for (Issue& issue : out) issue = in.issue();
  in.require(!out.empty());
  return in.is_done() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace reshard::format::hdf5::wire
