#include "reshard/pipeline/machine.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "reshard/base/error.hpp"

namespace reshard::pipeline {
namespace {

constexpr std::uint32_t kMemoryTypes[] = {
    0x01021994,  // tmpfs
    0x858458f6,  // ramfs
};
constexpr std::uint32_t kNetworkTypes[] = {
    0x00006969,  // NFS
    0x0000517b,  // SMB
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB2
    0x0bd00bd0,  // Lustre
    0x47504653,  // IBM Storage Scale (GPFS)
    0x19830326,  // BeeGFS
    0x00c36400,  // Ceph
    0x20030528,  // OrangeFS
    0x5346414f,  // AFS
    0x01021997,  // 9P
    0x65735546,  // FUSE: object stores and sshfs, mostly
};

template <std::size_t N>
bool holds(const std::uint32_t (&types)[N], std::uint32_t type) {
  return std::find(std::begin(types), std::end(types), type) != std::end(types);
}

}  // namespace

std::string_view name(Storage storage) {
  switch (storage) {
    case Storage::kMemory:
      return "memory";
    case Storage::kDisk:
      return "a local disk";
    case Storage::kNetwork:
      return "a network file system";
  }
  internal_error("a storage without a name");
}

Storage storage_of(const fs::path& path) {
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return Storage::kDisk;
  const auto type = static_cast<std::uint32_t>(found.f_type);
  if (holds(kMemoryTypes, type)) return Storage::kMemory;
  return holds(kNetworkTypes, type) ? Storage::kNetwork : Storage::kDisk;
}

Machine machine_of(const fs::path& source, exchange::Communicator& communicator) {
  const std::string storage = communicator.broadcast(std::string(1, static_cast<char>(storage_of(source))));
  return {static_cast<Storage>(storage.front()), communicator.nodes()};
}

}  // namespace reshard::pipeline
