#include "support/simulated_gpu/faults.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

namespace simulated_gpu {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::uint64_t number(const char* name, const std::string& text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') misuse(fmt::format("{}: '{}' is no number", name, text));
  return value;
}

std::uint64_t number_or(const char* name, std::uint64_t otherwise) {
  const std::string text = variable(name);
  return text.empty() ? otherwise : number(name, text);
}

/// "CALL:NUMBER:PROCESS,..." of this process, by call.
std::multimap<std::string, std::uint64_t> of_this_process(const char* name) {
  std::multimap<std::string, std::uint64_t> out;
  for (const std::string& item : split(variable(name), ',')) {
    const std::vector<std::string> parts = split(item, ':');
    if (parts.size() != 3) misuse(fmt::format("{}: '{}' is not CALL:NUMBER:PROCESS", name, item));
    if (number(name, parts[2]) == static_cast<std::uint64_t>(process())) out.emplace(parts[0], number(name, parts[1]));
  }
  return out;
}

struct Faults {
  Machine machine;
  std::multimap<std::string, std::uint64_t> fail = of_this_process("SIMULATED_GPU_FAIL");
  std::multimap<std::string, std::uint64_t> hang = of_this_process("SIMULATED_GPU_HANG");
  std::multimap<std::string, std::uint64_t> slow = of_this_process("SIMULATED_GPU_SLOW");
  std::optional<std::uint64_t> flip;
  std::map<std::string, std::uint64_t> calls;
  std::uint64_t launches = 0;

  Faults() {
    const std::uint64_t count = number_or("SIMULATED_GPU_COUNT", 8);
    machine.no_driver = count == 0;
    const std::string visible = variable("CUDA_VISIBLE_DEVICES");
    if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
      for (std::uint64_t device = 0; device < count; ++device) machine.devices.push_back(static_cast<int>(device));
    } else {
      // As the driver does it: what comes after the first number that is no device is not looked at.
      for (const std::string& text : split(visible, ',')) {
        const std::uint64_t device = number("CUDA_VISIBLE_DEVICES", text);
        if (device >= count) break;
        machine.devices.push_back(static_cast<int>(device));
      }
    }
    machine.memory_bytes = number_or("SIMULATED_GPU_MEMORY", std::uint64_t{1} << 30);
    machine.seed = static_cast<std::uint32_t>(number_or("SIMULATED_GPU_SEED", 1));
    const std::vector<std::string> parts = split(variable("SIMULATED_GPU_FLIP"), ':');
    if (!parts.empty() && parts.size() != 2) misuse("SIMULATED_GPU_FLIP is not NUMBER:PROCESS");
    if (!parts.empty() && number("SIMULATED_GPU_FLIP", parts[1]) == static_cast<std::uint64_t>(process()))
      flip = number("SIMULATED_GPU_FLIP", parts[0]);
  }
};

std::optional<Faults>& the_faults() {
  static std::optional<Faults> faults;
  return faults;
}

Faults& faults() {
  if (!the_faults()) the_faults().emplace();
  return *the_faults();
}

bool holds(const std::multimap<std::string, std::uint64_t>& of, const std::string& call, std::uint64_t count) {
  const auto [begin, end] = of.equal_range(call);
  for (auto i = begin; i != end; ++i)
    if (i->second == count) return true;
  return false;
}

}  // namespace

int process() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  int rank = 0;
  if (initialized != 0 && finalized == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void misuse(const std::string& message) {
  fmt::print(stderr, "simulated GPU, process {}: {}\n", process(), message);
  std::fflush(stderr);
  std::abort();
}

const Machine& machine() {
  return faults().machine;
}

Fate call(const char* name) {
  Faults& all = faults();
  const std::uint64_t count = ++all.calls[name];
  if (const auto slow = all.slow.find(name); slow != all.slow.end())
    std::this_thread::sleep_for(std::chrono::milliseconds(slow->second));
  if (holds(all.fail, name, count)) return Fate::kFails;
  return holds(all.hang, name, count) ? Fate::kHangs : Fate::kWell;
}

bool flips_after_launch() {
  return ++faults().launches == faults().flip;
}

void restart() {
  the_faults().reset();
}

}  // namespace simulated_gpu
