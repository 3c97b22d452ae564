// Runs every file of the given directories through a fuzz target, without libFuzzer: `replay DIRECTORY...`. Each name
// is printed before its turn, so that the last line names the input that ended the process.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/target.hpp"

extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int*, char***) {
  return 0;
}

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::filesystem::path> inputs;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) inputs.push_back(entry.path());
  std::sort(inputs.begin(), inputs.end());
  for (const std::filesystem::path& path : inputs) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  const reshard::fuzz::Counts& counts = reshard::fuzz::counts;
  std::printf("%zu inputs replayed, %d accepted, %d refused\n", inputs.size(), counts.accepted, counts.refused);
  if (counts.accepted > 0 && counts.refused > 0) return 0;
  std::printf("the corpus must have inputs that are accepted and inputs that are refused\n");
  return 1;
}
