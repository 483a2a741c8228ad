// Which followed files may have something new.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace laggard::agent {

/// Watches the directories of files with inotify, for speed alone: what it misses (a network file system, a
/// directory that does not exist yet, too many watches) is found by looking at the file now and then.
class FileWatch {
 public:
  /// With `poll` nothing is watched.
  explicit FileWatch(bool poll);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  /// Watches for a file. False when it cannot be watched.
  bool add(const std::string& path);
  /// Becomes readable when a file may have changed; -1 when nothing is watched.
  int fd() const { return fd_; }
  /// The paths added whose file, or one that it was renamed to, was written, made or moved since the last
  /// call.
  std::vector<std::string> changed();

 private:
  int fd_ = -1;
  std::map<int, std::vector<std::string>> files_;  // by the watch of their directory
};

}  // namespace laggard::agent
