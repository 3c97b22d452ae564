#pragma once
// Cuts written shortly, and shards as text: "4-8 24-28 pad 2 (copies 9)" are global intervals and padding in stored
// order.

#include <functional>
#include <string>
#include <utility>

#include "reshard/base/error.hpp"
#include "reshard/layout/cut.hpp"
#include "reshard/layout/tensor_layout.hpp"

namespace reshard::cut_text {

using layout::Index;

inline layout::Level axis(std::string name, Index size) {
  layout::Level out;
  out.axis = std::move(name);
  out.axis_size = size;
  return out;
}

/// One axis of a dim, with options set by `set`.
inline layout::DimCut cut(std::string name, Index size, const std::function<void(layout::Level&)>& set = {}) {
  layout::DimCut out;
  out.levels.push_back(axis(std::move(name), size));
  if (set) set(out.levels.back());
  return out;
}

inline std::string text(const layout::DimShard& shard) {
  std::string out;
  auto run = shard.runs.begin();
  auto pad = shard.pads.begin();
  while (run != shard.runs.end() || pad != shard.pads.end()) {
    if (!out.empty()) out += ' ';
    if (pad == shard.pads.end() || (run != shard.runs.end() && run->stored < pad->stored)) {
      out += std::to_string(run->global) + "-" + std::to_string(run->global + run->length);
      ++run;
    } else {
      out += (pad->temporary ? "temporary " : "pad ") + std::to_string(pad->length);
      if (pad->copy_of) out += " (copies " + std::to_string(*pad->copy_of) + ")";
      ++pad;
    }
  }
  return out;
}

inline std::string text(const layout::DimCut& cut, Index length, const std::vector<Index>& coordinates) {
  return text(layout::cut_dim(cut, length, coordinates));
}

/// "E_CODE: message" of the first issue, or "accepted".
inline std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return std::string(code_name(error.issues().front().code)) + ": " + error.issues().front().message;
  }
  return "accepted";
}

inline std::string refusal(const layout::DimCut& cut, Index length) {
  return refusal([&] { layout::cut_dim(cut, length, std::vector<Index>(cut.levels.size(), 0)); });
}

/// Global index of every stored position, "-1" for padding: "0 -1 3 4".
inline std::string positions(const layout::DimShard& shard) {
  std::vector<Index> at(static_cast<std::size_t>(shard.stored_length), -1);
  for (const layout::Run& run : shard.runs)
    for (Index i = 0; i < run.length; ++i) at[static_cast<std::size_t>(run.stored + i)] = run.global + i;
  std::string out;
  for (const Index index : at) out += (out.empty() ? "" : " ") + std::to_string(index);
  return out;
}

}  // namespace reshard::cut_text
