#include "reshard/pipeline/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "reshard/base/crc64.hpp"
#include "reshard/base/directory.hpp"
#include "reshard/base/error.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::string_view kFirstWords = "reshard journal 1 ";
constexpr std::int64_t kReadBytes = std::int64_t{1} << 20;
constexpr std::size_t kDigestDigits = 16;

fs::path journal_path(const fs::path& directory, ProcessRank process) {
  return directory / (process == 0 ? std::string(kJournalName) : fmt::format("{}.{}", kJournalName, process));
}

std::string first_line(const std::string& plan_digest) {
  return fmt::format("{}{}\n", kFirstWords, plan_digest);
}

void add_line(std::string& text, const JournaledFiles& files, const Extent& extent) {
  const std::int64_t bytes = extent.end - extent.begin;
  text += fmt::format("{} {} {} {}\n", escaped(files.names[extent.file]), extent.begin, bytes,
                      crc64::to_hex(crc64::finish(extent.reg, bytes)));
}

/// Hands out the lines of a file one by one, without their ends; what stands behind the last end is no line.
class LineReader {
 public:
  explicit LineReader(const fs::path& path) : file_(File::open_to_read(path)), bytes_(file_.size()) {}

  std::optional<std::string_view> next() {
    while (true) {
      const std::size_t end = text_.find('\n', at_);
      if (end != std::string::npos) {
        const std::string_view line = std::string_view(text_).substr(at_, end - at_);
        at_ = end + 1;
        return line;
      }
      text_.erase(0, std::exchange(at_, 0));
      const std::int64_t more = std::min(kReadBytes, bytes_ - read_);
      if (more <= 0) return std::nullopt;
      const std::size_t had = text_.size();
      text_.resize(had + static_cast<std::size_t>(more));
      file_.read(read_, std::as_writable_bytes(std::span(text_).subspan(had)));
      read_ += more;
    }
  }

 private:
  File file_;
  std::int64_t bytes_;
  std::int64_t read_ = 0;
  std::string text_;
  std::size_t at_ = 0;
};

std::optional<std::string> plan_digest_of(LineReader& lines) {
  const std::optional<std::string_view> line = lines.next();
  if (!line || !line->starts_with(kFirstWords)) return std::nullopt;
  return std::string(line->substr(kFirstWords.size()));
}

/// The word behind the last blank, which goes with it.
std::string_view take_last_word(std::string_view& line) {
  const std::size_t blank = line.rfind(' ');
  if (blank == std::string_view::npos) return {};
  const std::string_view out = line.substr(blank + 1);
  line = line.substr(0, blank);
  return out;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text, int base = 10) {
  Number out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<Extent> extent_of(std::string_view line, const JournaledFiles& files,
                                const std::map<std::string, std::size_t, std::less<>>& numbers) {
  const std::string_view digest_text = take_last_word(line);
  const auto digest = number_of<std::uint64_t>(digest_text, 16);
  const auto length = number_of<std::int64_t>(take_last_word(line));
  const auto begin = number_of<std::int64_t>(take_last_word(line));
  const auto file = numbers.find(line);
  if (!digest || digest_text.size() != kDigestDigits || !length || !begin || file == numbers.end()) return std::nullopt;
  const std::int64_t bytes = files.bytes[file->second];
  if (*begin < 0 || *length <= 0 || *begin >= bytes || *length > std::min(bytes, next_cut(*begin)) - *begin)
    return std::nullopt;
  return Extent{file->second, *begin, *begin + *length, crc64::unfinish(*digest, *length)};
}

/// Names at the top of the directory for which is_staging_name holds.
std::vector<std::string> staging_names(const fs::path& directory) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (is_staging_name(it->path().filename().string())) out.push_back(it->path().filename().string());
  if (error) io_error(directory, "list", error.value());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

bool is_staging_name(std::string_view name) {
  return name.starts_with(kJournalName) && (name.size() == kJournalName.size() || name[kJournalName.size()] == '.');
}

fs::path scratch_path(const fs::path& directory, ProcessRank process) {
  return directory / fmt::format("{}.scratch.{}", kJournalName, process);
}

std::optional<std::string> journal_plan_digest(const fs::path& directory) {
  const fs::path path = journal_path(directory, 0);
  if (!fs::is_regular_file(status_of(path))) return std::nullopt;
  LineReader lines(path);
  return plan_digest_of(lines);
}

std::vector<Extent> read_journals(const fs::path& directory, const JournaledFiles& files) {
  std::map<std::string, std::size_t, std::less<>> numbers;
  for (std::size_t f = 0; f < files.names.size(); ++f) numbers.emplace(escaped(files.names[f]), f);
  Extents out;
  for (const std::string& name : staging_names(directory)) {
    if (!fs::is_regular_file(status_of(directory / name))) continue;
    LineReader lines(directory / name);
    if (plan_digest_of(lines) != files.plan_digest) continue;
    while (const std::optional<std::string_view> line = lines.next())
      if (const std::optional<Extent> extent = extent_of(*line, files, numbers)) out.add(*extent);
  }
  return out.all();
}

void replace_journals(const fs::path& directory, const JournaledFiles& files, const std::vector<Extent>& extents) {
  std::string text = first_line(files.plan_digest);
  for (const Extent& extent : extents) add_line(text, files, extent);
  const fs::path made = directory / fmt::format("{}.new", kJournalName);
  write_text(made, text);
  std::error_code error;
  fs::rename(made, journal_path(directory, 0), error);
  if (error) io_error(made, "rename", error.value());
  remove_journals(directory, kJournalName);
}

void remove_journals(const fs::path& directory, std::string_view kept) {
  for (const std::string& name : staging_names(directory)) {
    if (name == kept) continue;
    std::error_code error;
    fs::remove_all(directory / name, error);
    if (error) io_error(directory / name, "remove", error.value());
  }
}

Journal::Journal(fs::path directory, JournaledFiles files, ProcessRank process)
    : files_(std::move(files)), path_(journal_path(directory, process)) {}

Journal::~Journal() {
  try {
    append_pending();
  } catch (const Error&) {
    // The error that ended the run is the one to tell; what is missing here is written again.
  }
}

void Journal::open() {
  file_ = File::open_to_append(path_);
  if (file_.size() == 0) file_.append(first_line(files_.plan_digest));
}

void Journal::add(const Extent& extent) {
  const std::lock_guard lock(mutex_);
  if (!pending_.add(extent))
    internal_error(
        fmt::format("bytes {} to {} of {} were written twice", extent.begin, extent.end, files_.names[extent.file]));
  if (pending_.bytes() >= kPendingBytes) append_pending();
}

void Journal::close() {
  append_pending();
  file_.close();
}

void Journal::append_pending() {
  if (!file_ || pending_.bytes() == 0) return;
  std::string text;
  for (const Extent& extent : pending_.all()) add_line(text, files_, extent);
  pending_ = {};
  file_.append(text);
}

}  // namespace reshard::pipeline
