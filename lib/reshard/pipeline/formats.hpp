#pragma once
// The formats this build knows, chosen by apps/.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/format/format.hpp"

namespace reshard::pipeline {

class Formats {
 public:
  explicit Formats(std::vector<std::unique_ptr<format::FileFormat>> formats) : formats_(std::move(formats)) {}

  /// Errors: kUnsupported (exit 3: plans and options name formats) with the names there are.
  const format::FileFormat& named(std::string_view name) const;
  const std::vector<std::unique_ptr<format::FileFormat>>& all() const { return formats_; }

 private:
  std::vector<std::unique_ptr<format::FileFormat>> formats_;
};

}  // namespace reshard::pipeline
