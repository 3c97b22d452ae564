#include "reshard/pipeline/formats.hpp"

#include <fmt/format.h>

#include "reshard/base/error.hpp"

namespace reshard::pipeline {

const format::FileFormat& Formats::named(std::string_view name) const {
  std::string known;
  for (const auto& format : formats_) {
    if (format->name() == name) return *format;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", format->name());
  }
  throw Error(Exit::kPlan, {Issue{ErrorCode::kUnsupported, "", kNoTensor,
                                  fmt::format("the format '{}' is not known; known are: {}", name, known)}});
}

}  // namespace reshard::pipeline
