#include "daemon/base/private_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "daemon/base/error.h"

namespace laggard {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path) {
  throw Error(std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

fs::path directory_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

// So that the name itself survives a power failure.
void sync_directory(const fs::path& directory) {
  const Descriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open() || fsync(fd.get()) != 0) fail("write", directory);
}

void write_all(int fd, const std::string& text, const fs::path& path) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno != EINTR) fail("write", path);
    if (n > 0) written += static_cast<std::size_t>(n);
  }
  if (fsync(fd) != 0) fail("write", path);
}

void give_to(int fd, uid_t owner, gid_t group, const fs::path& path) {
  struct stat now {};
  if (fstat(fd, &now) != 0) fail("look at", path);
  if ((now.st_uid != owner || now.st_gid != group) && fchown(fd, owner, group) != 0)
    fail("keep the owner of", path);
}

void give_to_owner_of(const fs::path& directory, int fd, const fs::path& path) {
  struct stat facts {};
  if (geteuid() != 0) return;
  if (stat(directory.c_str(), &facts) != 0) fail("look at", directory);
  give_to(fd, facts.st_uid, facts.st_gid, path);
}

// systemd hands a service its secrets in a folder of its own; since version 254 they carry a group bit, which
// is the mask of an access list there.
bool is_credential(const fs::path& path) {
  const char* folder = std::getenv("CREDENTIALS_DIRECTORY");
  return folder != nullptr && path.parent_path() == fs::path(folder);
}

}  // namespace

FileContent read_file(const fs::path& path, std::size_t most) {
  // Not to wait for the other end of a FIFO.
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  FileContent content;
  if (!fd.is_open() || fstat(fd.get(), &content.facts) != 0) fail("read", path);
  if (!S_ISREG(content.facts.st_mode))
    throw Error("cannot read " + path.string() + ": it is no regular file");
  std::string buffer(64 << 10, '\0');
  for (;;) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path);
    if (n == 0) return content;
    content.text.append(buffer, 0, static_cast<std::size_t>(n));
    if (content.text.size() > most)
      throw Error("cannot read " + path.string() + ": it is larger than " + std::to_string(most) + " bytes");
  }
}

std::string read_private_file(const fs::path& path, std::size_t most, std::string_view what) {
  FileContent content = read_file(path, most);
  if (content.facts.st_uid != geteuid() && content.facts.st_uid != 0)
    throw Error(std::string(what) + " in " + path.string() +
                " is refused: that file belongs to another user");
  if ((content.facts.st_mode & (is_credential(path) ? 037U : 077U)) != 0)
    throw Error(std::string(what) + " in " + path.string() +
                " is refused: others may read or write that file; chmod 600 " + path.string() +
                " keeps it to its owner (and a secret that others have seen should be replaced)");
  return std::move(content.text);
}

void write_new_file(const fs::path& path, const std::string& text, mode_t mode) {
  const Descriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.is_open()) fail("make", path);
  try {
    give_to_owner_of(directory_of(path), fd.get(), path);
    write_all(fd.get(), text, path);
    sync_directory(directory_of(path));
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
}

void replace_file(const fs::path& path, const std::string& text) {
  const fs::path directory = directory_of(path);
  std::string temporary = (directory / ("." + path.filename().string() + ".XXXXXX")).string();
  const Descriptor fd(mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!fd.is_open()) fail("write in", directory);
  try {
    struct stat before {};
    if (stat(path.c_str(), &before) == 0)
      give_to(fd.get(), before.st_uid, before.st_gid, path);
    else
      give_to_owner_of(directory, fd.get(), path);
    write_all(fd.get(), text, temporary);
    if (rename(temporary.c_str(), path.c_str()) != 0) fail("replace", path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  sync_directory(directory);
}

void make_private_directory(const fs::path& directory) {
  std::error_code error;
  const fs::path parent = directory_of(directory);
  fs::create_directories(parent, error);
  if (error) throw Error("cannot make " + parent.string() + ": " + error.message());
  if (mkdir(directory.c_str(), 0700) != 0) {
    if (errno == EEXIST) return;
    fail("make", directory);
  }
  // Whoever owns the parent may have put something else in its place by now: what is given away is root's
  // own.
  const Descriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat made {};
  if (!fd.is_open() || fstat(fd.get(), &made) != 0) fail("make", directory);
  if (made.st_uid == geteuid() && (made.st_mode & 07777) == 0700)
    give_to_owner_of(parent, fd.get(), directory);
}

DirectoryLock::DirectoryLock(const fs::path& directory)
    : fd_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) fail("open", directory);
  while (flock(fd_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int reason = errno;
    close(fd_);
    errno = reason;
    fail("lock", directory);
  }
}

DirectoryLock::~DirectoryLock() { close(fd_); }

}  // namespace laggard
