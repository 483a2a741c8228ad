// Files that only their owner may touch, read and written so that nothing is half there.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace laggard {

struct FileContent {
  std::string text;
  struct stat facts {};  ///< of the very file that was read
};

/// Throws Error when it cannot be read, is no regular file, or is larger than `most` bytes.
FileContent read_file(const std::filesystem::path& path, std::size_t most);

/// The same of a file that holds a secret: it must be its owner's alone. Throws Error, which never has the
/// content; `what` is the secret in a sentence: "the private key".
std::string read_private_file(const std::filesystem::path& path, std::size_t most, std::string_view what);

/// A new file, durable when this returns. Throws Error when there is one. What root makes belongs to the
/// owner of the directory, so that a collector with a user of its own can read it.
void write_new_file(const std::filesystem::path& path, const std::string& text, mode_t mode);

/// Puts a file in the place of another (or of none) at one stroke, mode 0600; the owner stays.
void replace_file(const std::filesystem::path& path, const std::string& text);

/// A directory that only its owner may enter; nothing when it is there. Parents are made as usual.
void make_private_directory(const std::filesystem::path& directory);

/// Keeps others that take the same lock out of a directory while it lives.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int fd_;
};

}  // namespace laggard
