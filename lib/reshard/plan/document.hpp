#pragma once
// The text of a plan, in either notation, as one value.

#include <string_view>

#include "reshard/base/value.hpp"

namespace reshard::plan {

enum class Notation { kYaml, kJson };

/// By file name: `.json` is JSON, everything else YAML.
Notation notation_of(std::string_view file_name);

/// Errors: kSyntax (not the notation; empty; above 16 MiB; nested deeper than 64 levels; a byte order mark, control
/// character or invalid UTF-8) and kDupKey, with `name:line:column` and the same words for both notations.
Value read_document(std::string_view text, Notation notation, std::string_view name);

}  // namespace reshard::plan
