#include "reshard/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace reshard {
namespace {

struct CodeEntry {
  ErrorCode code;
  std::string_view name;
  Exit exit;
};

constexpr std::array kCodes = {
    CodeEntry{ErrorCode::kUsage, "E_USAGE", Exit::kUsage},
    CodeEntry{ErrorCode::kExists, "E_EXISTS", Exit::kUsage},
    CodeEntry{ErrorCode::kSyntax, "E_SYNTAX", Exit::kPlan},
    CodeEntry{ErrorCode::kDupKey, "E_DUP_KEY", Exit::kPlan},
    CodeEntry{ErrorCode::kSchema, "E_SCHEMA", Exit::kPlan},
    CodeEntry{ErrorCode::kMeshSize, "E_MESH_SIZE", Exit::kPlan},
    CodeEntry{ErrorCode::kAxisDup, "E_AXIS_DUP", Exit::kPlan},
    CodeEntry{ErrorCode::kRanks, "E_RANKS", Exit::kPlan},
    CodeEntry{ErrorCode::kMeshWorld, "E_MESH_WORLD", Exit::kPlan},
    CodeEntry{ErrorCode::kPattern, "E_PATTERN", Exit::kPlan},
    CodeEntry{ErrorCode::kAxisUnknown, "E_AXIS_UNKNOWN", Exit::kPlan},
    CodeEntry{ErrorCode::kAxisReused, "E_AXIS_REUSED", Exit::kPlan},
    CodeEntry{ErrorCode::kPartial, "E_PARTIAL", Exit::kPlan},
    CodeEntry{ErrorCode::kRuleUnused, "E_RULE_UNUSED", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kTensorUnmatched, "E_TENSOR_UNMATCHED", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kDimRange, "E_DIM_RANGE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kDimDup, "E_DIM_DUP", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kIndivisible, "E_INDIVISIBLE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kEmptyShard, "E_EMPTY_SHARD", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kUnitSplit, "E_UNIT_SPLIT", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kSegmentSum, "E_SEGMENT_SUM", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kStride, "E_STRIDE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kSeqLayout, "E_SEQ_LAYOUT", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kPad, "E_PAD", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kRepeat, "E_REPEAT", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kOwner, "E_OWNER", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kGroupIncomplete, "E_GROUP_INCOMPLETE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kMemberSize, "E_MEMBER_SIZE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kShape, "E_SHAPE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kDtype, "E_DTYPE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kRenameCollision, "E_RENAME_COLLISION", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kCoverage, "E_COVERAGE", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kMissing, "E_MISSING", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kReplica, "E_REPLICA", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kOverflow, "E_OVERFLOW", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kFormat, "E_FORMAT", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kUnsupported, "E_UNSUPPORTED", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kLink, "E_LINK", Exit::kCheckpoint},
    CodeEntry{ErrorCode::kIo, "E_IO", Exit::kIo},
    CodeEntry{ErrorCode::kTransport, "E_TRANSPORT", Exit::kTransport},
    CodeEntry{ErrorCode::kDevice, "E_DEVICE", Exit::kTransport},
    CodeEntry{ErrorCode::kMemory, "E_MEMORY", Exit::kMemory},
    CodeEntry{ErrorCode::kDifferent, "E_DIFFERENT", Exit::kDifferent},
    CodeEntry{ErrorCode::kDigest, "E_DIGEST", Exit::kInternal},
    CodeEntry{ErrorCode::kInternal, "E_INTERNAL", Exit::kInternal},
    CodeEntry{ErrorCode::kInterrupted, "E_INTERRUPTED", Exit::kInternal},
};

const CodeEntry& entry(ErrorCode code) {
  for (const CodeEntry& e : kCodes)
    if (e.code == code) return e;
  return kCodes.back();
}

/// White space beyond ASCII (Unicode 15, property White_Space) that `escaped` leaves as it is.
constexpr std::array<std::string_view, 16> kWideBlanks = {"\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                                          "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009",
                                                          "\u200a", "\u202f", "\u205f", "\u3000"};

bool needs_quotes(std::string_view name) {
  const auto at_an_end = [&](std::string_view blank) { return name.starts_with(blank) || name.ends_with(blank); };
  return name.empty() || name.starts_with('"') || at_an_end(" ") ||
         std::any_of(kWideBlanks.begin(), kWideBlanks.end(), at_an_end);
}

std::string line(std::string_view code, const std::string& where, const std::optional<std::string>& tensor,
                 const std::string& message) {
  std::string out(code);
  if (!where.empty()) out += fmt::format(": {}", escaped(where));
  if (tensor) out += ": tensor " + (needs_quotes(*tensor) ? name_text(*tensor) : fmt::format("'{}'", escaped(*tensor)));
  return out + fmt::format(": {}", escaped(message));
}

}  // namespace

std::string_view code_name(ErrorCode code) {
  return entry(code).name;
}

ErrorCode code_from_name(std::string_view name) {
  for (const CodeEntry& e : kCodes)
    if (e.name == name) return e.code;
  return ErrorCode::kInternal;
}

Exit default_exit(ErrorCode code) {
  return entry(code).exit;
}

namespace {

/// Bytes of the character that `text` begins with; 0 where they are no UTF-8 (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  // Neither overlong forms nor surrogates nor what is beyond U+10FFFF.
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (first < 0xc2 || first > 0xf4 || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  return length;
}

/// A character of `text` beyond ASCII, which is all of it and well formed.
char32_t code_point(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  char32_t out = text.size() == 2 ? first & 0x1fU : text.size() == 3 ? first & 0x0fU : first & 0x07U;
  for (const char c : text.substr(1)) out = out << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  return out;
}

/// Characters beyond ASCII that show nothing themselves but change what is shown: C1 controls (terminals obey them),
/// marks and overrides of direction, breaks of lines and paragraphs, what has no width. First and last of each range.
constexpr auto kUnseen = std::to_array<std::pair<char32_t, char32_t>>(
    {{0x80, 0x9f}, {0x61c, 0x61c}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}});

bool is_unseen(char32_t c) {
  return std::any_of(kUnseen.begin(), kUnseen.end(),
                     [&](const auto& range) { return range.first <= c && c <= range.second; });
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t length = utf8_length(text.substr(i)); length > 1) {
      const std::string_view character = text.substr(i, length);
      if (const char32_t c = code_point(character); is_unseen(c)) {
        out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
      } else {
        out += character;
      }
      i += length;
      continue;
    }
    const char c = text[i++];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string name_text(std::string_view name) {
  return needs_quotes(name) ? fmt::format("\"{}\"", escaped(name)) : escaped(name);
}

std::string to_line(const Issue& issue) {
  return line(code_name(issue.code), issue.where, issue.tensor, issue.message);
}

std::string to_line(const Warning& warning) {
  return line(warning.code, warning.where, warning.tensor, warning.message);
}

Error::Error(Issue issue) : Error(std::vector<Issue>{std::move(issue)}) {}

Error::Error(std::vector<Issue> issues) : Error(Exit::kInternal, std::move(issues)) {
  if (!issues_.empty()) exit_ = default_exit(issues_.front().code);
}

Error::Error(Exit exit, std::vector<Issue> issues) : issues_(std::move(issues)), exit_(exit) {
  for (const Issue& issue : issues_) {
    if (!text_.empty()) text_ += '\n';
    text_ += to_line(issue);
  }
}

void internal_error(std::string message) {
  throw Error(Issue{ErrorCode::kInternal, "", kNoTensor, std::move(message)});
}

}  // namespace reshard
