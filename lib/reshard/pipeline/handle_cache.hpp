#pragma once
// Open handles by number, at most so many at a time: a checkpoint may have more files than a process may hold open.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace reshard::pipeline {

/// Safe from several threads. A handle in use stays open when the cache lets go of it.
template <typename Handle>
class HandleCache {
 public:
  HandleCache(std::size_t limit, std::function<std::shared_ptr<Handle>(std::size_t)> open)
      : limit_(limit), open_(std::move(open)) {}

  std::shared_ptr<Handle> get(std::size_t number) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[number];
    entry.used = ++clock_;
    if (entry.handle == nullptr) {
      try {
        entry.handle = open_(number);
      } catch (...) {
        entries_.erase(number);
        throw;
      }
    }
    std::shared_ptr<Handle> out = entry.handle;
    if (entries_.size() > limit_)
      entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                      [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
    return out;
  }

 private:
  struct Entry {
    std::shared_ptr<Handle> handle;
    std::uint64_t used = 0;
  };

  std::size_t limit_;
  std::function<std::shared_ptr<Handle>(std::size_t)> open_;
  std::mutex mutex_;
  std::uint64_t clock_ = 0;
  std::map<std::size_t, Entry> entries_;
};

/// Files open at a time on either side; together well below the usual limit of 1,024 descriptors.
inline constexpr std::size_t kOpenFiles = 256;

}  // namespace reshard::pipeline
