#include "test_hooks.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshard/base/error.hpp"

namespace reshard::app {
namespace {

using pipeline::BufferStage;
using pipeline::Phase;

const std::map<std::string_view, Phase> kPhases = {
    {"prepare", Phase::kPrepare}, {"claim", Phase::kClaim},       {"stage", Phase::kStage},
    {"trust", Phase::kTrust},     {"create", Phase::kCreate},     {"move", Phase::kMove},
    {"flush", Phase::kFlush},     {"manifest", Phase::kManifest}, {"publish", Phase::kPublish}};

const std::map<std::string_view, BufferStage> kStages = {{"read", BufferStage::kRead},
                                                         {"packed", BufferStage::kPacked},
                                                         {"received", BufferStage::kReceived},
                                                         {"unpacked", BufferStage::kUnpacked},
                                                         {"readback", BufferStage::kReadBack}};

using Action = std::function<void(std::span<std::byte>)>;

/// The fields of a variable, between colons.
class Fields {
 public:
  Fields(const char* variable, std::string text) : variable_(variable), text_(std::move(text)), rest_(text_) {}

  std::string_view next() {
    const std::size_t end = std::min(rest_.find(':'), rest_.size());
    const std::string_view field = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return field;
  }

  int number() {
    const std::string field(next());
    if (field.empty() || field.find_first_not_of("0123456789") != std::string::npos) refuse();
    return std::stoi(field);
  }

  [[noreturn]] void refuse() const {
    throw Error(Issue{ErrorCode::kUsage, variable_, kNoTensor, "cannot be understood: '" + text_ + "'"});
  }

 private:
  const char* variable_;
  std::string text_;
  std::string_view rest_;
};

struct Place {
  std::optional<Phase> phase;  ///< else a buffer
  BufferStage stage = BufferStage::kRead;
  std::string tensor;
  int number = 0;
  ProcessRank process = 0;
};

Place read_place(Fields& fields) {
  Place out;
  const std::string_view first = fields.next();
  if (const auto phase = kPhases.find(first); phase != kPhases.end()) {
    out.phase = phase->second;
  } else {
    const auto stage = kStages.find(first);
    if (stage == kStages.end()) fields.refuse();
    out.stage = stage->second;
    out.tensor = fields.next();
    out.number = fields.number();
  }
  out.process = fields.number();
  return out;
}

class AtPlace : public pipeline::Hooks {
 public:
  AtPlace(Place place, Action action) : place_(std::move(place)), action_(std::move(action)), left_(place_.number) {}

  void on_phase(Phase phase) override {
    if (phase == place_.phase) action_({});
  }

  void on_buffer(BufferStage stage, std::string_view tensor, std::span<std::byte> bytes) override {
    if (!place_.phase && stage == place_.stage && tensor == place_.tensor && !bytes.empty() && left_-- == 0)
      action_(bytes);
  }

 private:
  Place place_;
  Action action_;
  std::atomic<int> left_;
};

void flip(std::span<std::byte> bytes) {
  if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{1};
}

Action flipping(Fields&) {
  return flip;
}

Action signalling(Fields& fields) {
  return [number = fields.number()](std::span<std::byte>) { ::kill(::getpid(), number); };
}

Action failing(Fields& fields) {
  const std::string_view fault = fields.next();
  if (fault == "memory") return [](std::span<std::byte>) { throw std::bad_alloc(); };
  if (fault == "exception") return [](std::span<std::byte>) { throw std::runtime_error("a test of failing"); };
  if (fault != "io" && fault != "format") fields.refuse();
  const ErrorCode code = fault == "io" ? ErrorCode::kIo : ErrorCode::kFormat;
  return [code](std::span<std::byte>) { throw Error(Issue{code, "somewhere", kNoTensor, "a test of failing"}); };
}

}  // namespace

std::unique_ptr<pipeline::Hooks> test_hooks(ProcessRank process) {
  static const std::vector<std::pair<const char*, Action (*)(Fields&)>> variables = {
      {"RESHARD_TEST_SIGNAL", signalling}, {"RESHARD_TEST_FLIP", flipping}, {"RESHARD_TEST_FAIL", failing}};
  for (const auto& [variable, make_action] : variables) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    Fields fields(variable, text);
    Action action = make_action(fields);
    Place place = read_place(fields);
    if (place.process == process) return std::make_unique<AtPlace>(std::move(place), std::move(action));
  }
  return nullptr;
}

}  // namespace reshard::app
