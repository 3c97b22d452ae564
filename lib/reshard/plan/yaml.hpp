#pragma once
// The strict YAML reader of plans: yaml-cpp's event interface under checks of ours, ending in the same values as the
// JSON reader (plan format section 10). No node tree of yaml-cpp is built, so aliases cannot explode and cannot be
// cyclic.
//
// A plain scalar is null, a boolean or a number exactly if it is one in JSON (empty and `~` are null); everything
// quoted is a string. Errors: kSyntax and kDupKey with `source:line:column`. Refused: tags, anchors, aliases, merge
// keys, a second document, repeated keys, keys that are no scalars, nesting beyond the limit, plain scalars that some
// YAML version reads as a number and JSON does not (04, 0x4, .5).

#include <string_view>

#include "reshard/base/value.hpp"

namespace reshard::plan {

struct YamlLimits {
  int depth = 64;
};

/// The one document of `text`, which is valid UTF-8 without control characters (document.hpp checks that); null without
/// a position where nothing is written.
Value parse_yaml(std::string_view text, std::string_view source, YamlLimits limits = {});

}  // namespace reshard::plan
