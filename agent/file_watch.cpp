#include "agent/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <set>

#include "daemon/base/file_system.h"

namespace laggard::agent {
namespace {

// Another machine's writes raise no event there.
bool is_network(const std::string& directory) {
  const auto type = file_system_of(directory);
  return type.has_value() && !network_file_system(*type).empty();
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
