#pragma once
// The page of a dry run without its data: page/page.html with its style and scripts, put into the library by CMake.

#include <string_view>

namespace reshard::report {

/// Has `{{data}}` once, where the JSON of page_data.hpp goes.
std::string_view page_template();

}  // namespace reshard::report
