#include "reshard/format/safetensors/dcp.hpp"

#include <fmt/format.h>

#include "reshard/base/error.hpp"
#include "reshard/base/json.hpp"

namespace reshard::format::safetensors {
namespace {

Value parse_sharding_info(const std::string& path, const std::string& text) {
  try {
    return parse_json(text, "DCP_SHARDING_INFO", {.depth = 8});
  } catch (const Error& error) {
    throw Error(
        Issue{ErrorCode::kFormat, path, kNoTensor, fmt::format("__metadata__: {}", to_line(error.issues().front()))});
  }
}

}  // namespace

void refuse_dcp_shard(const std::string& path, const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find("DCP_SHARDING_INFO");
  if (found == metadata.end()) return;
  const Value info = parse_sharding_info(path, found->second);
  if (!info.is_object())
    throw Error(Issue{ErrorCode::kFormat, path, kNoTensor,
                      fmt::format("DCP_SHARDING_INFO is a {}, expected a map of tensors", info.kind())});
  for (const auto& [tensor, entry, position] : info.object()) {
    const Value* const offsets = entry.find("saved_offsets");
    if (offsets == nullptr || !offsets->is_array())
      throw Error(Issue{ErrorCode::kFormat, path, tensor, "DCP_SHARDING_INFO has no saved_offsets for it"});
    for (const Value& offset : offsets->array()) {
      if (!offset.is_integer())
        throw Error(Issue{ErrorCode::kFormat, path, tensor,
                          fmt::format("a saved offset is a {}, expected an integer", offset.kind())});
      if (offset.integer() != 0)
        throw Error(
            Issue{ErrorCode::kUnsupported, path, tensor,
                  fmt::format("is a shard of torch.distributed.checkpoint's sharded safetensors output "
                              "(DCP_SHARDING_INFO: saved offset {}), which cannot be read as rank files; consolidate "
                              "the checkpoint with torch first",
                              offset.integer())});
    }
  }
}

}  // namespace reshard::format::safetensors
