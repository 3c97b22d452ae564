#include "test_hooks.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <sstream>
#include <string>

#include "reshard/base/error.hpp"

namespace reshard::app {
namespace {

pipeline::BufferStage stage_of(const std::string& text) {
  if (text == "read") return pipeline::BufferStage::kRead;
  if (text == "packed") return pipeline::BufferStage::kPacked;
  if (text == "received") return pipeline::BufferStage::kReceived;
  if (text == "unpacked") return pipeline::BufferStage::kUnpacked;
  if (text == "readback") return pipeline::BufferStage::kReadBack;
  throw Error(Issue{ErrorCode::kUsage, "RESHARD_TEST_FLIP, RESHARD_TEST_SIGNAL", "", "unknown stage '" + text + "'"});
}

/// STAGE:TENSOR:NUMBER:PROCESS
struct Place {
  pipeline::BufferStage stage;
  std::string tensor;
  int number = 0;
  ProcessRank process = 0;
};

Place read_place(std::istringstream& in) {
  std::array<std::string, 4> fields;
  for (std::string& field : fields) std::getline(in, field, ':');
  return {stage_of(fields[0]), fields[1], std::stoi(fields[2]), std::stoi(fields[3])};
}

/// Does something to one buffer.
class AtPlace : public pipeline::Hooks {
 public:
  explicit AtPlace(Place place) : place_(std::move(place)), left_(place_.number) {}

  void on_buffer(pipeline::BufferStage stage, std::string_view tensor, std::span<std::byte> bytes) final {
    if (stage == place_.stage && tensor == place_.tensor && !bytes.empty() && left_-- == 0) act(bytes);
  }

 private:
  virtual void act(std::span<std::byte> bytes) = 0;

  Place place_;
  std::atomic<int> left_;
};

class Flip : public AtPlace {
 public:
  using AtPlace::AtPlace;

 private:
  void act(std::span<std::byte> bytes) override { bytes[bytes.size() / 2] ^= std::byte{1}; }
};

class Signal : public AtPlace {
 public:
  Signal(Place place, int number) : AtPlace(std::move(place)), number_(number) {}

 private:
  void act(std::span<std::byte>) override { ::kill(::getpid(), number_); }

  int number_;
};

}  // namespace

std::unique_ptr<pipeline::Hooks> test_hooks(ProcessRank process) {
  if (const char* const text = std::getenv("RESHARD_TEST_SIGNAL"); text != nullptr) {
    std::istringstream in(text);
    std::string number;
    std::getline(in, number, ':');
    Place place = read_place(in);
    if (place.process == process) return std::make_unique<Signal>(std::move(place), std::stoi(number));
  }
  if (const char* const text = std::getenv("RESHARD_TEST_FLIP"); text != nullptr) {
    std::istringstream in(text);
    Place place = read_place(in);
    if (place.process == process) return std::make_unique<Flip>(std::move(place));
  }
  return nullptr;
}

}  // namespace reshard::app
