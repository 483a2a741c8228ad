#include "agent/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "daemon/base/error.h"

namespace laggard::agent {
namespace {

int open_nameless(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  // Some file systems have no files without a name.
  std::string name = directory + "/laggard-spool-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) throw Error("no spool file can be made in " + directory + ": " + std::strerror(errno));
  ::unlink(name.c_str());
  return named;
}

}  // namespace

Spool::Spool(const std::string& directory, std::uint64_t bytes)
    : capacity_(bytes), fd_(open_nameless(directory)) {}

Spool::~Spool() { ::close(fd_); }

std::optional<std::uint64_t> Spool::put(std::string_view text) {
  std::uint64_t place = head_ == tail_ ? (head_ = tail_ = 0) : tail_;
  const std::uint64_t left = capacity_ - place % capacity_;
  if (text.size() > left) place += left;  // it stands in one piece
  if (text.size() > capacity_ || place + text.size() - head_ > capacity_) return std::nullopt;
  const ssize_t written = ::pwrite(fd_, text.data(), text.size(), static_cast<off_t>(place % capacity_));
  if (written != static_cast<ssize_t>(text.size())) return std::nullopt;
  tail_ = place + text.size();
  return place;
}

std::optional<std::string> Spool::get(std::uint64_t place, std::size_t size) const {
  std::string text(size, '\0');
  const ssize_t got = ::pread(fd_, text.data(), size, static_cast<off_t>(place % capacity_));
  if (got != static_cast<ssize_t>(size)) return std::nullopt;
  return text;
}

void Spool::free(std::uint64_t place, std::size_t size) { head_ = place + size; }

}  // namespace laggard::agent
