#pragma once
// The machine-readable cases of tests/data as values of the layout room. Sides are written like plans; this converter
// knows just enough of that notation for the cases, so that layouts are tested without the plan reader.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/base/dtype.hpp"
#include "reshard/base/error.hpp"
#include "reshard/base/value.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/mesh.hpp"
#include "reshard/layout/tensor_layout.hpp"

namespace reshard::cases {

using layout::Index;

/// The cases of a file in RESHARD_TEST_DATA.
Value::Array load(const std::string& file);

std::vector<Index> integers(const Value& list);

/// `axes` (a list of "name=size") with optional `ranks`.
layout::Mesh read_mesh(const Value& axes, const Value* ranks = nullptr);

/// The mesh of a side: its `axes` and `ranks`.
layout::Mesh side_mesh(const Value& side);

/// The cut of one dim. An axis that `mesh` lacks has size 1 if it is in `other_axes`, else kAxisUnknown.
layout::DimCut read_dim(const Value& value, const layout::Mesh& mesh, const std::set<std::string>& other_axes = {});

/// The cut of a tensor of `rank` dims. Errors: kDimRange, kDimDup, kAxisUnknown, kAxisReused.
layout::TensorCut read_cut(const Value* shard, std::size_t rank, const layout::Mesh& mesh,
                           const std::set<std::string>& other_axes = {});

std::set<std::string> axis_names(const layout::Mesh& mesh);

/// Error codes that a case accepts: `error` and `or`; empty where it expects a result.
std::set<std::string> expected_errors(const Value& expect);

/// Codes that refuse a plan before there is a layout: such cases are run as plans.
bool belongs_to_the_plan_reader(const std::set<std::string>& codes);

/// Runs `work` and returns the code it was refused with, or "accepted".
std::string code_of(const std::function<void()>& work);

/// How many cases of each kind ran, and why others did not.
struct Tally {
  std::map<std::string, int> ran;
  std::map<std::string, std::map<std::string, int>> not_applicable;  ///< by kind, reason
};

}  // namespace reshard::cases
