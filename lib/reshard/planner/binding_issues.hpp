#pragma once
// The faults of a binding, folded: what a rule does wrong to thousands of tensors for one cause is one line that names
// the first of them and the count.

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "reshard/base/error.hpp"
#include "reshard/plan/plan.hpp"

namespace reshard::planner {

class FoldedIssues {
 public:
  explicit FoldedIssues(const plan::ParallelPlan& plan) : plan_(&plan) {}

  /// Issues of one rule, code and cause are one line, that of the first tensor by name. `cause` stands for the message
  /// where messages differ from tensor to tensor.
  void add(std::size_t rule, ErrorCode code, const std::optional<std::string>& tensor, const std::string& message,
           const std::string& cause);
  void add(std::size_t rule, ErrorCode code, const std::optional<std::string>& tensor, const std::string& message) {
    add(rule, code, tensor, message, message);
  }

  bool empty() const { return entries_.empty(); }
  bool has(std::size_t rule) const;
  /// By rule (kNoRule last), then tensor, then code.
  std::vector<Issue> issues() const;
  /// Ends the phase: one Error with exit 4.
  void throw_if_any() const;

 private:
  struct Entry {
    std::optional<std::string> tensor;
    std::string message;
    std::size_t count = 0;
  };
  const plan::ParallelPlan* plan_;
  std::map<std::tuple<std::size_t, ErrorCode, std::string>, Entry> entries_;
};

}  // namespace reshard::planner
