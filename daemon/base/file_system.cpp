#include "daemon/base/file_system.h"

#include <sys/vfs.h>

#include <array>

namespace laggard {
namespace {

struct NetworkFileSystem {
  std::int64_t type;
  std::string_view name;
};

// From statfs(2), linux/magic.h and the file systems' own sources. FUSE is here because nothing tells a
// local one from sshfs, GlusterFS or JuiceFS.
constexpr std::array kNetworkFileSystems{
    NetworkFileSystem{0x6969, "NFS"},        NetworkFileSystem{0x517b, "SMB"},
    NetworkFileSystem{0xff534d42, "CIFS"},   NetworkFileSystem{0xfe534d42, "SMB 2"},
    NetworkFileSystem{0x65735546, "FUSE"},   NetworkFileSystem{0x0bd00bd0, "Lustre"},
    NetworkFileSystem{0x01021997, "9p"},     NetworkFileSystem{0x47504653, "GPFS"},
    NetworkFileSystem{0x19830326, "BeeGFS"}, NetworkFileSystem{0x00c36400, "Ceph"},
    NetworkFileSystem{0x013111a8, "IBRIX"},  NetworkFileSystem{0xaad7aaea, "PanFS"},
    NetworkFileSystem{0x5346414f, "AFS"},    NetworkFileSystem{0x73757245, "Coda"},
    NetworkFileSystem{0x7461636f, "OCFS2"},  NetworkFileSystem{0x01161970, "GFS2"},
};

}  // namespace

std::optional<std::int64_t> file_system_of(const std::filesystem::path& path) {
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) return std::nullopt;
  return static_cast<std::int64_t>(info.f_type);
}

std::string_view network_file_system(std::int64_t type) {
  // f_type is signed on some machines: compare what fits in 32 bits.
  for (const NetworkFileSystem& known : kNetworkFileSystems)
    if ((type & 0xffff'ffff) == known.type) return known.name;
  return "";
}

}  // namespace laggard
