#pragma once
// Data outside the file: external links, external storage, virtual datasets. Off unless allowed; allowed, every file
// named must lie in the checkpoint directory and be there, since the library reads what is missing as fill values.

#include <hdf5.h>

#include <string>
#include <string_view>

#include "reshard/format/format.hpp"
#include "reshard/format/hdf5/handle.hpp"

namespace reshard::format::hdf5 {

class ExternalPolicy {
 public:
  explicit ExternalPolicy(const ReadOptions& options);

  bool allowed() const { return allowed_; }

  /// The file that `name` means in `from_file`: beside it, where the name is relative. Errors without place: kLink
  /// (outside the root, or nothing is allowed), kMissing, kFormat (no regular file).
  fs::path resolve(const fs::path& from_file, std::string_view name) const;

  /// Access to links, groups and datasets under this policy: external links are followed only to files that resolve()
  /// finds, external storage is found beside the file that names it. The policy must outlive the property list.
  Handle link_access() const;
  Handle dataset_access() const;

 private:
  bool allowed_ = false;
  fs::path root_;
};

/// What of a virtual or externally stored dataset is checked before it is read through the library: every member is
/// there, holds all it is asked for, and together they fill the dataset. Errors without place: kLink, kMissing,
/// kFormat, kUnsupported.
void check_external_storage(const ExternalPolicy& policy, const fs::path& file, hid_t creation_properties,
                            std::int64_t bytes);
void check_virtual_storage(const ExternalPolicy& policy, const fs::path& file, hid_t dataset,
                           hid_t creation_properties);

}  // namespace reshard::format::hdf5
