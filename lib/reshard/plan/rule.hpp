#pragma once
// A rule (section 4): which tensors it is for, and how each side has them.

#include <cstddef>
#include <optional>
#include <string>

#include "reshard/base/dtype.hpp"
#include "reshard/base/value.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/plan/faults.hpp"
#include "reshard/plan/pattern.hpp"
#include "reshard/plan/placement.hpp"
#include "reshard/plan/side.hpp"

namespace reshard::plan {

struct Rule {
  std::size_t number = 0;  ///< from 0
  Position position;
  NamePattern match;
  Placement source;
  Placement target;
  std::optional<std::string> rename;
  std::optional<Dtype> dtype;
  bool optional = false;
  bool drop = false;
};

/// What rules are read against.
struct RuleScope {
  const Side* source = nullptr;
  const Side* target = nullptr;
  layout::Fallback fallback = layout::Fallback::kError;  ///< of the top level
};

/// `node` is tensors[number].
Rule read_rule(const Node& node, std::size_t number, const RuleScope& scope, Faults& faults);

/// `fallback` of a rule or the top level: `error` or `replicate`.
layout::Fallback read_default_fallback(const Node& node, Faults& faults);

}  // namespace reshard::plan
