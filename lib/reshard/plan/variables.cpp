#include "reshard/plan/variables.hpp"

#include <fmt/format.h>

#include <string_view>
#include <unordered_set>

#include "reshard/base/error.hpp"

namespace reshard::plan {
namespace {

constexpr std::string_view kOpen = "${";
/// What a faulty expression counts as: legal wherever a number is, so that one fault stays one.
constexpr std::int64_t kStandIn = 1;

/// Replaces strings below a node. Recursion is bounded by the readers' depth limit.
class Substitution {
 public:
  Substitution(const Variables& variables, Faults& faults) : variables_(variables), faults_(faults) {}

  Value value(const Node& node) {
    Value out = node->is_string()   ? string(node)
                : node->is_array()  ? list(node)
                : node->is_object() ? map(node)
                                    : *node;
    out.position = node->position;
    return out;
  }

  Value map(const Node& node) {
    Value::Object out;
    std::unordered_set<std::string> keys;
    for (const Value::Member& member : node->object()) {
      const Node at = child(node, member);
      if (node.path.empty() && member.key == "vars") {
        out.push_back(member);
        continue;
      }
      std::string key = text(member.key, Node{&member.value, at.path, member.position});
      if (!keys.insert(key).second)
        faults_.add(ErrorCode::kDupKey, member.position, node.path, fmt::format("the key '{}' is given twice", key));
      out.push_back({std::move(key), value(at), member.position});
    }
    return Value(std::move(out));
  }

 private:
  Value list(const Node& node) {
    Value::Array out;
    for (std::size_t i = 0; i < node->array().size(); ++i) out.push_back(value(child(node, i)));
    return Value(std::move(out));
  }

  Value string(const Node& node) {
    const std::string& written = node->string();
    const bool opens = written.starts_with(kOpen);
    const std::size_t close = written.find('}');
    if (opens && close == written.size() - 1)  // "${a}", not "${a}${b}"
      return Value(evaluated(written.substr(kOpen.size(), close - kOpen.size()), node));
    std::string replaced = text(written, node);
    return opens && close == std::string::npos ? Value(kStandIn) : Value(std::move(replaced));
  }

  std::string text(std::string_view written, const Node& at) {
    std::string out;
    for (std::size_t begin = 0;;) {
      const std::size_t open = written.find(kOpen, begin);
      out += written.substr(begin, open - begin);
      if (open == std::string_view::npos) return out;
      const std::size_t close = written.find('}', open);
      if (close == std::string_view::npos) {
        faults_.add(ErrorCode::kSchema, at, fmt::format("'${{' in '{}' is never closed", written));
        return out;
      }
      const std::size_t inside = open + kOpen.size();
      out += std::to_string(evaluated(written.substr(inside, close - inside), at));
      begin = close + 1;
    }
  }

  std::int64_t evaluated(std::string_view expression, const Node& at) {
    try {
      return evaluate(expression, variables_);
    } catch (const Error& error) {
      faults_.add(error.issues().front().code, at, error.issues().front().message);
      return kStandIn;
    }
  }

  const Variables& variables_;
  Faults& faults_;
};

}  // namespace

Variables read_variables(const Value& root, const std::vector<std::pair<std::string, std::int64_t>>& changes,
                         Faults& faults) {
  Variables out;
  if (const Value* vars = root.find("vars")) {
    const Node node{vars, "vars", vars->position};
    if (expect_map(node, "a map of names to integers", faults)) {
      for (const Value::Member& member : vars->object()) {
        const Node at = child(node, member);
        if (!is_variable_name(member.key)) {
          faults.add(ErrorCode::kSchema, at,
                     fmt::format("'{}' is no variable name; use letters, digits and '_'", member.key));
        } else if (!member.value.is_integer()) {
          faults.add(ErrorCode::kSchema, at, fmt::format("found {}, expected an integer", describe(member.value)));
          out[member.key] = 1;  // known, so that its uses are no faults of their own
        } else {
          out[member.key] = member.value.integer();
        }
      }
    }
  }
  std::vector<std::string> known;
  for (const auto& [name, value] : out) known.push_back(name);
  for (const auto& [name, value] : changes) {
    const auto variable = out.find(name);
    if (variable == out.end()) {
      faults.add_option(ErrorCode::kSchema, "--set",
                        fmt::format("the plan has no variable '{}'{}; {}", name, suggestion(name, known),
                                    known.empty() ? "it has no 'vars'" : fmt::format("vars: {}", join(known))));
    } else {
      variable->second = value;
    }
  }
  return out;
}

Value substitute(const Value& root, const Variables& variables, Faults& faults) {
  return Substitution(variables, faults).value(Node{&root, "", root.position});
}

}  // namespace reshard::plan
