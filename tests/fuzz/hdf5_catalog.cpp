// HDF5 files as the product reads them: the library, which broken files do crash, runs in a child, and whatever happens
// there is a catalog or a refusal here. The child is this executable, under the same sanitizers; a report of theirs
// from our own code ends the target, one from the library is its own fault and only told. No coverage of the child
// guides the mutations: what it can guide, the decoder of the child's answers, is the target hdf5_answer.

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "fuzz/target.hpp"
#include "reshard/format/hdf5/child.hpp"
#include "reshard/format/hdf5/hdf5.hpp"

using namespace reshard;

namespace {

constexpr std::int64_t kReadBytes = 64 << 10;

fs::path report_directory;

/// Reports of the sanitizers in the child, which are removed.
std::vector<std::string> take_reports() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(report_directory)) {
    std::ifstream file(entry.path());
    out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    fs::remove(entry.path());
  }
  return out;
}

/// Line `number` of the report's first stack.
std::string frame(const std::string& report, int number) {
  const std::size_t begin = report.find(fmt::format("    #{} ", number));
  return begin == std::string::npos ? "" : report.substr(begin, report.find('\n', begin) - begin);
}

/// Whether a frame of this executable is our own code, and not the sanitizer's.
bool is_ours(const std::string& frame) {
  const std::size_t plus = frame.rfind("+0x", frame.find(')'));
  const std::size_t open = frame.rfind('(', plus);
  if (plus == std::string::npos || frame.find("fuzz_hdf5_catalog") == std::string::npos) return false;
  const std::string file = frame.substr(open + 1, plus - open - 1);
  const std::string address = frame.substr(plus + 1, frame.find(')') - plus - 1);
  FILE* const names = ::popen(fmt::format("addr2line -f -C -e '{}' {}", file, address).c_str(), "r");
  fuzz::require(names != nullptr, "addr2line (binutils) is there");
  std::string name;
  for (;;) {
    const int c = std::fgetc(names);
    if (c != EOF) {
      name += static_cast<char>(c);
    } else if (std::ferror(names) != 0 && errno == EINTR) {
      std::clearerr(names);  // the alarm of the fuzzer
    } else {
      break;
    }
  }
  fuzz::require(::pclose(names) == 0, "addr2line (binutils) is there");
  return name.find("reshard::") != std::string::npos;
}

/// The innermost frame that is the library's or ours: before it come the C library and what the sanitizer has in its
/// place.
std::string culprit(const std::string& report) {
  for (int number = 0;; ++number) {
    std::string at = frame(report, number);
    if (at.empty() || at.find("libhdf5") != std::string::npos || is_ours(at)) return at;
  }
}

void check_reports() {
  static std::set<std::string> told;
  for (const std::string& report : take_reports()) {
    const std::string where = culprit(report);
    if (where.find("libhdf5") == std::string::npos) {
      std::fprintf(stderr, "%s\n", report.c_str());
      fuzz::require(false, "the child's own code has no fault");
    }
    if (told.insert(where.substr(where.find('('))).second)
      std::fprintf(stderr, "library: %s\n%s\n", where.c_str(), report.c_str());
  }
}

void read_all(format::hdf5::Child& child, std::string_view bytes) {
  const fuzz::InputFile input(bytes);
  const format::ReadOptions options;
  format::FileCatalog catalog;
  if (!fuzz::accepts(Exit::kCheckpoint, [&] { catalog = child.catalog(input.path(), options); })) return;
  const auto by_name = [](const auto& a, const auto& b) { return a.name >= b.name; };
  fuzz::require(std::ranges::adjacent_find(catalog.tensors, by_name) == catalog.tensors.end(),
                "tensors come in the order of their names, each once");
  for (const format::StoredTensor& tensor : catalog.tensors) {
    if (tensor.offset) continue;
    const std::string& address = tensor.address.empty() ? tensor.name : tensor.address;
    std::vector<std::byte> out(
        static_cast<std::size_t>(std::min(kReadBytes, format::payload_bytes(tensor.dtype, tensor.shape))));
    fuzz::accepts(Exit::kCheckpoint, [&] { child.read(input.path(), options, address, 0, out); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc > 1 && std::string_view((*argv)[1]) == format::kHdf5ChildArgument)
    std::exit(format::run_hdf5_child(*argc, *argv));
  std::string name = (fs::temp_directory_path() / "reshard-fuzz-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    std::perror("a temporary directory");
    std::exit(1);
  }
  report_directory = name;
  std::atexit([] { fs::remove_all(report_directory); });
  // For children: this process has read its own options.
  const std::string sanitizers = "symbolize=0:detect_leaks=0:log_path=" + (report_directory / "child").string();
  ::setenv("ASAN_OPTIONS", sanitizers.c_str(), 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static format::hdf5::Child child(fs::read_symlink("/proc/self/exe"));
  read_all(child, fuzz::text_of(data, size));
  check_reports();
  return 0;
}
