#include "test_hooks.hpp"

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
  throw Error(Issue{ErrorCode::kUsage, "RESHARD_TEST_FLIP", "", "unknown stage '" + text + "'"});
}

class Flip : public pipeline::Hooks {
 public:
  Flip(pipeline::BufferStage stage, std::string tensor, int number)
      : stage_(stage), tensor_(std::move(tensor)), left_(number) {}

  void on_buffer(pipeline::BufferStage stage, std::string_view tensor, std::span<std::byte> bytes) override {
    if (stage != stage_ || tensor != tensor_ || bytes.empty() || left_-- != 0) return;
    bytes[bytes.size() / 2] ^= std::byte{1};
  }

 private:
  pipeline::BufferStage stage_;
  std::string tensor_;
  std::atomic<int> left_;
};

}  // namespace

std::unique_ptr<pipeline::Hooks> test_hooks(ProcessRank process) {
  const char* const text = std::getenv("RESHARD_TEST_FLIP");
  if (text == nullptr) return nullptr;
  std::istringstream in(text);
  std::string stage;
  std::string tensor;
  std::string number;
  std::string where;
  std::getline(in, stage, ':');
  std::getline(in, tensor, ':');
  std::getline(in, number, ':');
  std::getline(in, where, ':');
  if (std::stoi(where) != process) return nullptr;
  return std::make_unique<Flip>(stage_of(stage), tensor, std::stoi(number));
}

}  // namespace reshard::app
