#pragma once
// Shards that torch.distributed.checkpoint's HuggingFaceStorageWriter wrote. Its files hold parts of tensors whose
// place is told only by `DCP_SHARDING_INFO` in the metadata (JSON text: name -> {"saved_offsets": [...]}); shard
// numbers are no ranks. Read as rank files they would give wrong weights.

#include <map>
#include <string>

namespace reshard::format::safetensors {

/// Errors: kUnsupported where a tensor's saved offset is other than 0; kFormat where the text is not what DCP writes.
void refuse_dcp_shard(const std::string& path, const std::map<std::string, std::string>& metadata);

}  // namespace reshard::format::safetensors
