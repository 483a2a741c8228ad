#include "agent/file_watch.h"

#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>

namespace laggard::agent {
namespace {

// Another machine's writes raise no event on these. Those without a constant in linux/magic.h: CIFS, Lustre,
// GPFS, BeeGFS.
constexpr std::array<std::uint32_t, 12> kNetworkFileSystems{
    NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  SMB2_SUPER_MAGIC, CODA_SUPER_MAGIC, AFS_SUPER_MAGIC, V9FS_MAGIC,
    CEPH_SUPER_MAGIC, FUSE_SUPER_MAGIC, 0xff534d42,       0x0bd00bd0,       0x47504653,      0x19830326};

bool is_network(const std::string& directory) {
  struct statfs status {};
  return ::statfs(directory.c_str(), &status) == 0 &&
         std::ranges::find(kNetworkFileSystems, static_cast<std::uint32_t>(status.f_type)) !=
             kNetworkFileSystems.end();
}

std::filesystem::path directory_of(const std::string& path) {
  const std::filesystem::path file(path);
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace

FileWatch::FileWatch(bool poll) : fd_(poll ? -1 : ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

FileWatch::~FileWatch() {
  if (fd_ >= 0) ::close(fd_);
}

bool FileWatch::add(const std::string& path) {
  const std::string directory = directory_of(path).string();
  if (fd_ < 0 || is_network(directory)) return false;
  const int watch =
      ::inotify_add_watch(fd_, directory.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
  if (watch < 0) return false;
  files_[watch].push_back(path);
  return true;
}

std::vector<std::string> FileWatch::changed() {
  std::set<std::string> out;
  alignas(inotify_event) std::array<char, 16 << 10> buffer;
  for (;;) {
    const ssize_t size = ::read(fd_, buffer.data(), buffer.size());
    if (size <= 0) break;
    for (ssize_t at = 0; at < size;) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const std::string name = event.len > 0 ? std::string(buffer.data() + at + sizeof event) : std::string();
      at += static_cast<ssize_t>(sizeof event + event.len);
      const auto it = files_.find(event.wd);
      if (it == files_.end()) continue;
      for (const std::string& path : it->second)
        if (name.starts_with(std::filesystem::path(path).filename().string())) out.insert(path);
    }
  }
  return {out.begin(), out.end()};
}

}  // namespace laggard::agent
