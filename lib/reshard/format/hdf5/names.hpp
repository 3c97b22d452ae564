#pragma once
// Tensor names as paths in an HDF5 file.
//
// '/' makes groups. A name that has an empty, '.' or '..' component, or of which another name is a prefix that ends at
// a slash ("conv1" and "conv1/bn": a dataset is no group), or that holds a '%', is stored as one link of the root:
// '%' -> "%25", '/' -> "%2F", component '.' -> "%2E", '..' -> "%2E%2E", empty -> "%00". The attribute `name` has the
// exact name; nothing is ever decoded.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::format::hdf5 {

/// The paths of a file's tensors, without a leading '/', in the order of `names`. Distinct names get distinct paths,
/// and no path is a group of another. A path differs from its name exactly if the attribute `name` is needed.
std::vector<std::string> stored_paths(std::span<const std::string_view> names);

/// One name by itself, as one link.
std::string percent_encoded(std::string_view name);

}  // namespace reshard::format::hdf5
