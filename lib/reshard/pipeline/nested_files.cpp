#include "reshard/pipeline/nested_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <vector>

namespace reshard::pipeline {
namespace {

constexpr int kLevels = 3;
constexpr std::size_t kMaxEntries = 10'000;
constexpr std::ptrdiff_t kNamesInMessages = 3;

std::vector<std::string> nested_files(const fs::path& directory, const Formats& formats) {
  std::vector<std::string> out;
  std::error_code error;
  std::size_t entries = 0;
  for (fs::recursive_directory_iterator it(directory, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end && entries < kMaxEntries; it.increment(error), ++entries) {
    if (it.depth() + 1 == kLevels) it.disable_recursion_pending();
    const std::string name = it->path().filename().string();
    const bool fits = std::any_of(formats.all().begin(), formats.all().end(),
                                  [&](const auto& format) { return name.ends_with(format->extension()); });
    std::error_code unknown;
    if (fits && it.depth() > 0 && it->is_regular_file(unknown))
      out.push_back(it->path().lexically_relative(directory).string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string nested_files_hint(const fs::path& directory, const Formats& formats) {
  const std::vector<std::string> names = nested_files(directory, formats);
  if (names.empty()) return {};
  const std::ptrdiff_t told = std::min(std::ssize(names), kNamesInMessages);
  std::string list = fmt::format("{}", fmt::join(names.begin(), names.begin() + told, ", "));
  if (std::ssize(names) > told) list += fmt::format(" and {} more", std::ssize(names) - told);
  return fmt::format(
      "Files lie in the folders below it: {}. Give one folder as the path, or a plan whose `files` names all of them, "
      "as "
      "in files: \"rank_{{rank}}/model{}\"",
      list, fs::path(names.front()).extension().string());
}

}  // namespace reshard::pipeline
