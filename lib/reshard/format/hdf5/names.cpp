#include "reshard/format/hdf5/names.hpp"

#include <unordered_set>

namespace reshard::format::hdf5 {
namespace {

/// Calls `visit` with each component: "a//b" has "a", "" and "b"; "" has one empty component.
template <typename Visit>
void for_each_component(std::string_view name, Visit visit) {
  for (std::size_t begin = 0;;) {
    const std::size_t slash = name.find('/', begin);
    visit(name.substr(begin, slash - begin));
    if (slash == std::string_view::npos) return;
    begin = slash + 1;
  }
}

bool has_special_part(std::string_view name) {
  bool found = name.find('%') != std::string_view::npos;
  for_each_component(name,
                     [&](std::string_view part) { found = found || part.empty() || part == "." || part == ".."; });
  return found;
}

bool has_prefix_in(const std::unordered_set<std::string_view>& names, std::string_view name) {
  for (std::size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1))
    if (names.contains(name.substr(0, slash))) return true;
  return false;
}

}  // namespace

std::string percent_encoded(std::string_view name) {
  std::string out;
  bool is_first = true;
  for_each_component(name, [&](std::string_view part) {
    if (!is_first) out += "%2F";
    is_first = false;
    if (part.empty()) {
      out += "%00";
    } else if (part == "." || part == "..") {
      for (std::size_t i = 0; i < part.size(); ++i) out += "%2E";
    } else {
      for (const char c : part) {
        if (c == '%') {
          out += "%25";
        } else {
          out += c;
        }
      }
    }
  });
  return out;
}

std::vector<std::string> stored_paths(std::span<const std::string_view> names) {
  const std::unordered_set<std::string_view> all(names.begin(), names.end());
  std::vector<std::string> out;
  out.reserve(names.size());
  for (const std::string_view name : names)
    out.push_back(has_special_part(name) || has_prefix_in(all, name) ? percent_encoded(name) : std::string(name));
  return out;
}

}  // namespace reshard::format::hdf5
