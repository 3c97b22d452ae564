#include "reshard/plan/owner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "reshard/base/checked.hpp"
#include "reshard/base/error.hpp"
#include "reshard/plan/pattern.hpp"

namespace reshard::plan {
namespace {

using layout::Index;

const std::vector<std::string> kKeys = {"index", "count", "split", "numbering"};
const std::vector<std::string> kNumberings = {"global", "local"};
constexpr std::string_view kForm =
    "expected \"k/count\" with a capture or an integer, as in \"$1/32\" or \"0/32\", or a map "
    "with 'index' and 'count' or 'split'";

/// An integer of 0 or more as JSON writes it.
std::optional<Index> whole_number(std::string_view text) {
  Index number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number < 0 || text.front() == '-' || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return number;
}

class OwnerReader {
 public:
  OwnerReader(OwnerRule& owner, std::string_view side, std::size_t captures, Faults& faults)
      : owner_(owner), side_(side), captures_(captures), faults_(faults) {}

  void read(const Node& node) {
    if (node->is_object()) {
      read_long(node);
    } else if (node->is_string()) {
      read_short(node);
    } else {
      fault(ErrorCode::kSchema, node, fmt::format("found {}, {}", describe(*node), kForm));
    }
  }

 private:
  void fault(ErrorCode code, const Node& node, std::string_view message) { faults_.add(code, node, message); }

  void read_short(const Node& node) {
    const std::string_view text = node->string();
    const std::size_t slash = std::min(text.find('/'), text.size());
    const std::string_view index = text.substr(0, slash);
    const auto count = slash < text.size() ? whole_number(text.substr(slash + 1)) : std::nullopt;
    const auto number = whole_number(index);
    if (!count || (!number && !index.starts_with('$'))) {
      fault(ErrorCode::kSchema, node, fmt::format("found '{}', {}", text, kForm));
      return;
    }
    if (*count < 1) {
      fault(ErrorCode::kSchema, node, fmt::format("found the count {}, expected 1 or more", *count));
      return;
    }
    if (number) {
      owner_.indices = {*number};
    } else if (!read_capture(index, node)) {
      return;
    }
    owner_.count = *count;
    check_count(node);
    check_indices(node);
  }

  void read_long(const Node& node) {
    const std::size_t reports_before = faults_.reports();
    const Fields fields(node, kKeys, faults_);
    const auto index = fields.require("index", faults_);
    const auto count = fields.find("count");
    const auto split = fields.find("split");
    if (index) read_index(*index);
    if (count) owner_.count = read_integer(*count, 1, faults_).value_or(0);
    if (split) read_split(*split, count.has_value());
    if (!count && !split) fault(ErrorCode::kSchema, node, "the key 'count' (or 'split') is missing");
    if (const auto numbering = fields.find("numbering")) {
      owner_.local_numbering = read_choice(*numbering, kNumberings, faults_).value_or(0) == 1;
      if (owner_.local_numbering && !owner_.indices.empty())
        fault(ErrorCode::kSchema, *numbering,
              "'local' numbers are taken from names: 'index' must be a capture, as in $1");
    }
    if (faults_.reports() > reports_before) return;
    if (!split) check_count(*count);
    check_indices(*index);
  }

  void read_index(const Node& node) {
    if (node->is_string()) {
      read_capture(node->string(), node);
    } else if (node->is_array()) {
      if (node->array().empty())
        fault(ErrorCode::kSchema, node, "an empty list, expected the numbers of the tied copies");
      for (std::size_t i = 0; i < node->array().size(); ++i)
        if (const auto number = read_integer(child(node, i), 0, faults_)) owner_.indices.push_back(*number);
    } else if (node->is_integer()) {
      if (const auto number = read_integer(node, 0, faults_)) owner_.indices = {*number};
    } else {
      fault(ErrorCode::kSchema, node,
            fmt::format("found {}, expected a capture as in $1, an integer or a list of integers", describe(*node)));
    }
  }

  bool read_capture(std::string_view text, const Node& node) {
    const std::vector<std::size_t> references = capture_references(text);
    const bool alone = references.size() == 1 && text == fmt::format("${}", references.front());
    if (!alone) {
      fault(ErrorCode::kSchema, node, fmt::format("found '{}', expected one capture as in $1", text));
      return false;
    }
    if (references.front() < 1 || references.front() > captures_) {
      fault(ErrorCode::kPattern, node, fmt::format("{} names no capture; the pattern has {}", text, captures_));
      return false;
    }
    owner_.capture = references.front();
    return true;
  }

  void read_split(const Node& node, bool count_given) {
    if (!expect_list(node, "a list with the numbers of every coordinate", faults_)) return;
    const std::size_t reports_before = faults_.reports();
    std::vector<Index> split;
    Index sum = 0;
    for (std::size_t i = 0; i < node->array().size(); ++i) {
      const Node at = child(node, i);
      const Index share = read_integer(at, 0, faults_).value_or(0);
      split.push_back(share);
      if (__builtin_add_overflow(sum, share, &sum)) {
        fault(ErrorCode::kOverflow, at, "the shares add up to more than 63 bits hold");
        return;
      }
    }
    if (faults_.reports() > reports_before) return;
    if (sum == 0) {
      fault(ErrorCode::kOwner, node, "the shares add up to 0");
    } else if (count_given && owner_.count > 0 && owner_.count != sum) {
      fault(ErrorCode::kOwner, node, fmt::format("the shares add up to {}, 'count' is {}", sum, owner_.count));
    } else if (owner_.axis_size > 1 && static_cast<Index>(split.size()) != owner_.axis_size) {
      fault(ErrorCode::kOwner, node,
            fmt::format("{} shares, axis '{}' has {} coordinates in the {}; expected one share per coordinate",
                        split.size(), owner_.axis, owner_.axis_size, side_));
    }
    owner_.count = sum;
    // Over one coordinate there is one share, whatever the other side's numbers are.
    if (owner_.axis_size > 1) owner_.split = std::move(split);
  }

  void check_count(const Node& node) {
    if (owner_.count % owner_.axis_size == 0) return;
    fault(ErrorCode::kOwner, node,
          fmt::format(
              "{} numbers over axis '{}' of size {} in the {}: expected a multiple of {}, or the numbers of every "
              "coordinate, as in "
              "{{index: ..., split: [...]}}",
              owner_.count, owner_.axis, owner_.axis_size, side_, owner_.axis_size));
  }

  void check_indices(const Node& node) {
    for (const Index index : owner_.indices)
      if (index >= owner_.count)
        fault(ErrorCode::kOwner, node,
              fmt::format("index {} of {}; expected 0 to {}", index, owner_.count, owner_.count - 1));
  }

  OwnerRule& owner_;
  std::string_view side_;
  std::size_t captures_;
  Faults& faults_;
};

}  // namespace

std::vector<OwnerRule> read_owners(const Node& node, const AxisScope& scope, std::size_t captures, Faults& faults) {
  std::vector<OwnerRule> owners;
  if (!expect_small_map(node, "a map of axes to \"k/count\", as in {pp: \"$1/32\"}", faults)) return owners;
  for (const Value::Member& member : node->object()) {
    const Node at = child(node, member);
    OwnerRule owner;
    owner.axis = member.key;
    owner.axis_size = scope.size_of(member.key, Node{at.value, at.path, member.position}, faults);
    OwnerReader(owner, scope.side, captures, faults).read(at);
    owners.push_back(std::move(owner));
  }
  return owners;
}

}  // namespace reshard::plan
