#pragma once
// Blocks of memory with copy tasks on them, and what the memory holds after: by going through every element of a box,
// byte by byte. The tests of the body of a task on the host and of the kernel on a GPU share them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reshard/exchange/copy_task.hpp"
#include "support/random_layouts.hpp"

namespace reshard::copy_scenes {

/// A random box of 1 to 6 dims with gaps on both sides; some dims repeat the source (stride 0).
layout::CopyBox random_box(random_layouts::Random& random);

struct CopyScene {
  std::string name;
  std::vector<exchange::CopyTask> tasks;  ///< numbered
  std::int64_t tiles = 0;
  std::vector<std::byte> before;
  std::vector<std::byte> after;
};

/// All boxes, dtypes and alignments that are tested.
std::vector<CopyScene> copy_scenes();

/// Number of bytes that differ, and the first of them, for a message; "" where none does.
std::string difference(const std::vector<std::byte>& found, const std::vector<std::byte>& expected);

}  // namespace reshard::copy_scenes
