#include "reshard/base/directory.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <vector>

namespace reshard {

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(fs::absolute(path), error);
  if (error) io_error(path, "resolve", error.value());
  return out.has_filename() ? out : out.parent_path();
}

bool is_inside(const fs::path& inner, const fs::path& outer) {
  auto i = inner.begin();
  for (const fs::path& part : outer) {
    if (i == inner.end() || *i != part) return false;
    ++i;
  }
  return true;
}

fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status out = fs::status(path, error);
  if (out.type() == fs::file_type::none) io_error(path, "stat", error.value());
  return out;
}

fs::file_status own_status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status out = fs::symlink_status(path, error);
  if (out.type() == fs::file_type::none) io_error(path, "stat", error.value());
  return out;
}

fs::path place_of(const fs::path& path) {
  const fs::file_status status = status_of(path);
  if (!fs::exists(status) && fs::is_symlink(own_status_of(path)))
    return place_of(path.parent_path() / fs::read_symlink(path));
  if (fs::is_other(status)) return resolved(fs::absolute(path).parent_path()) / path.filename();
  return resolved(path);
}

dev_t device_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) io_error(path, "stat", errno);
  return status.st_dev;
}

FileState state_of(const fs::path& path) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    io_error(path, "stat", errno);
  }
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) io_error(path, "remove", error.value());
}

void remove_others(const fs::path& directory, const Keeps& keeps) {
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (keeps(it->path().lexically_relative(directory), it->symlink_status().type())) continue;
    others.push_back(it->path());
    it.disable_recursion_pending();
  }
  if (error) io_error(directory, "list", error.value());
  for (const fs::path& path : others) remove_tree(path);
}

}  // namespace reshard
