#include "reshard/plan/file_template.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "reshard/base/error.hpp"
#include "reshard/plan/faults.hpp"

namespace reshard::plan {
namespace {

constexpr std::size_t kMaxBytes = 4096;
constexpr std::size_t kMostComponentBytes = 255;  // of every common file system; counted as written, fields included
constexpr std::string_view kExample = "write {rank}, {rank:05} or an axis, as in 'rank-{rank:05}.h5'";

[[noreturn]] void refuse(std::string_view text, std::string_view message) {
  throw Error(Issue{ErrorCode::kSchema, "", kNoTensor, fmt::format("template '{}': {}", text, message)});
}

/// The template is a path below the directory, whatever its fields are: digits make no component `..` nor empty.
void check_path(std::string_view text) {
  if (text.empty()) refuse(text, "is empty");
  if (text.size() > kMaxBytes) refuse(text.substr(0, 40), fmt::format("longer than {} bytes", kMaxBytes));
  if (text.front() == '/') refuse(text, "an absolute path; it is relative to the directory of the side");
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view component = text.substr(begin, end - begin);
    if (component.empty()) refuse(text, "has an empty path component");
    if (component.size() > kMostComponentBytes)
      refuse(text.substr(0, 64), fmt::format("... has a path component of {} bytes; file systems take at most {}",
                                             component.size(), kMostComponentBytes));
    if (component == "." || component == "..") refuse(text, fmt::format("has the path component '{}'", component));
    begin = end + 1;
  }
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) refuse(text, "has a control character");
}

/// "05" is a width of 5.
std::optional<int> padded_width(std::string_view text) {
  int width = 0;
  if (text.size() < 2 || text.size() > 3 || text[0] != '0') return std::nullopt;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), width);
  if (fault != std::errc() || end != text.data() + text.size() || width < 1 || width > 19) return std::nullopt;
  return width;
}

}  // namespace

struct FileTemplate::Compiled {
  Compiled(const std::string& regex, const RE2::Options& options) : expression(regex, options) {}
  RE2 expression;
};

FileTemplate::FileTemplate(std::string_view text, std::span<const std::string> axes) : text_(text) {
  check_path(text);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t brace = std::min(text.find_first_of("{}", i), text.size());
    if (brace > i) parts_.push_back({std::string(text.substr(i, brace - i)), "", 0});
    if (brace == text.size()) break;
    const std::size_t close = text.find('}', brace);
    if (text[brace] == '}' || close == std::string_view::npos)
      refuse(text, fmt::format("a single '{}'; {}", text[brace], kExample));
    std::string_view field = text.substr(brace + 1, close - brace - 1);
    int width = 0;
    if (const std::size_t colon = field.find(':'); colon != std::string_view::npos) {
      const std::optional<int> padded = padded_width(field.substr(colon + 1));
      if (!padded) refuse(text, fmt::format("'{}' is no zero-padded width; {}", field.substr(colon + 1), kExample));
      width = *padded;
      field = field.substr(0, colon);
    }
    std::vector<std::string> legal = {"rank"};
    legal.insert(legal.end(), axes.begin(), axes.end());
    if (std::find(legal.begin(), legal.end(), field) == legal.end())
      refuse(text, fmt::format("unknown field '{}'{}; legal fields: {}", field, suggestion(field, legal), join(legal)));
    if (std::find(fields_.begin(), fields_.end(), field) == fields_.end()) fields_.emplace_back(field);
    parts_.push_back({"", std::string(field), width});
    i = close + 1;
  }

  std::string regex;
  for (const Part& part : parts_) {
    if (part.field.empty()) {
      regex += RE2::QuoteMeta(part.text);
    } else if (part.width > 1) {
      // Exactly the width, or longer without leading zeros: what expand() writes.
      regex += fmt::format("([0-9]{{{0}}}|[1-9][0-9]{{{0},}})", part.width);
    } else {
      regex += "(0|[1-9][0-9]*)";
    }
  }
  RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(RE2::Options::EncodingLatin1);
  compiled_ = std::make_shared<Compiled>(regex, options);
  if (!compiled_->expression.ok()) refuse(text, compiled_->expression.error());
}

std::string FileTemplate::expand(const FileFields& values) const {
  std::string out;
  for (const Part& part : parts_) {
    if (part.field.empty()) {
      out += part.text;
      continue;
    }
    const auto value = values.find(part.field);
    if (value == values.end()) internal_error(fmt::format("template '{}': no value for '{}'", text_, part.field));
    out += fmt::format("{:0{}}", value->second, part.width);
  }
  return out;
}

std::optional<FileFields> FileTemplate::match(std::string_view name) const {
  const RE2& expression = compiled_->expression;
  std::vector<re2::StringPiece> found(static_cast<std::size_t>(expression.NumberOfCapturingGroups()) + 1);
  const re2::StringPiece piece(name.data(), name.size());
  if (!expression.Match(piece, 0, name.size(), RE2::ANCHOR_BOTH, found.data(), static_cast<int>(found.size())))
    return std::nullopt;
  FileFields values;
  std::size_t next = 1;
  for (const Part& part : parts_) {
    if (part.field.empty()) continue;
    const re2::StringPiece digits = found[next++];
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) return std::nullopt;
    const auto [known, added] = values.emplace(part.field, value);
    if (!added && known->second != value) return std::nullopt;
  }
  return values;
}

}  // namespace reshard::plan
