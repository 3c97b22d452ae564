// The plan reader, on texts in JSON.

#include "fuzz/plan_outcome.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reshard::fuzz::check_plan(reshard::fuzz::text_of(data, size), reshard::plan::Notation::kJson);
  return 0;
}
