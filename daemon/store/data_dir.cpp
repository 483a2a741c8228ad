#include "daemon/store/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/error.h"

namespace laggard::store {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw Error(std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(errno));
}

void refuse_network(const fs::path& dir, const FileSystemOf& file_system) {
  // A directory that is still to be made lies where its nearest existing ancestor does.
  std::error_code ignored;
  fs::path existing = fs::absolute(dir);
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) existing = existing.parent_path();
  const std::optional<std::int64_t> type = file_system(existing);
  if (!type.has_value()) fail(existing, "look at");
  if (const std::string_view name = network_file_system(*type); !name.empty())
    throw Error(dir.string() + " is on a network file system (" + std::string(name) +
                "), where SQLite's write-ahead log is not safe; give a directory on a local disk");
}

void create_private(const fs::path& dir) {
  std::error_code error;
  const fs::path parent = fs::absolute(dir).parent_path();
  fs::create_directories(parent, error);
  if (error) throw Error("cannot create " + parent.string() + ": " + error.message());
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) fail(dir, "create");
}

/// The process that holds the lock, as it wrote itself down; "" when that cannot be read.
std::string holder(int lock) {
  std::array<char, 32> text{};
  const ssize_t size = pread(lock, text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
}

int lock_dir(const fs::path& dir) {
  const fs::path path = dir / "lock";
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) fail(path, "write");
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    const std::string pid = holder(lock);
    close(lock);
    errno = reason;
    if (reason != EWOULDBLOCK) fail(path, "lock");
    throw Error("another laggardd (pid " + (pid.empty() ? "unknown" : pid) + ") is using " + dir.string() +
                "; stop it, or give another directory");
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(lock, 0) != 0 || pwrite(lock, pid.data(), pid.size(), 0) < 0) {
    const int reason = errno;
    close(lock);
    errno = reason;
    fail(path, "write");
  }
  return lock;
}

}  // namespace

DataDir::DataDir(fs::path path, const FileSystemOf& file_system) : path_(std::move(path)) {
  refuse_network(path_, file_system);
  create_private(path_);
  lock_ = lock_dir(path_);
}

DataDir::~DataDir() { close(lock_); }

void DataDir::create_database_file() const {
  const int file = open(database().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) fail(database(), "write");
  close(file);
}

}  // namespace laggard::store
