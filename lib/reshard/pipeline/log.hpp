#pragma once

#include <functional>
#include <string_view>

namespace reshard::pipeline {

/// Is told what is being done, a line each.
using Log = std::function<void(std::string_view)>;

}  // namespace reshard::pipeline
