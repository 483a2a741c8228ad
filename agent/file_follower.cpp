#include "agent/file_follower.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "daemon/base/limits.h"

namespace laggard::agent {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kHeadBytes = 1024;
constexpr std::size_t kTailBytes = 64;
constexpr std::size_t kFormerInodes = 16;

std::string read_at(int fd, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t n = ::pread(fd, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return bytes;
}

std::uint64_t hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string tail_before(int fd, std::uint64_t offset) {
  const std::uint64_t size = std::min<std::uint64_t>(offset, kTailBytes);
  return read_at(fd, offset - size, size);
}

bool is_later(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

// The files that rotation made of a path: its name, a dot and digits.
std::vector<std::string> rotated_files(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path followed(path);
  const std::string prefix = followed.filename().string() + ".";
  const fs::path directory = followed.has_parent_path() ? followed.parent_path() : fs::path(".");
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(prefix) && name.find_first_not_of("0123456789", prefix.size()) == std::string::npos)
      out.push_back(it->path().string());
  }
  return out;
}

}  // namespace

bool FileFollower::open(const std::string& path, std::uint64_t offset) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    problem_ = errno == ENOENT ? "" : std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem_ = S_ISDIR(status.st_mode) ? "it is a directory" : "it is no regular file";
  } else {
    problem_.clear();
  }
  if (fd < 0 || !problem_.empty()) {
    if (fd >= 0) ::close(fd);
    return false;
  }
  close();
  fd_ = fd;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  start_at(offset);
  return true;
}

void FileFollower::start_at(std::uint64_t offset) {
  read_offset_ = consumed_ = seen_size_ = offset;
  line_number_ = 0;
  head_ = read_at(fd_, 0, std::min<std::uint64_t>(offset, kHeadBytes));
  tail_ = tail_before(fd_, offset);
  buffer_.clear();
  begin_ = searched_ = 0;
  skipping_ = false;
}

void FileFollower::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool FileFollower::resume(const FilePlace& place) {
  if (resume_in(path_, place)) return true;
  for (const std::string& path : rotated_files(path_))
    if (resume_in(path, place)) return true;
  close();
  return false;
}

bool FileFollower::resume_in(const std::string& path, const FilePlace& place) {
  if (!open(path, place.offset)) return false;
  line_number_ = place.line_number;
  return this->place() == place;
}

std::optional<FilePlace> FileFollower::place() const {
  if (fd_ < 0) return std::nullopt;
  const std::string_view head = std::string_view(head_).substr(0, consumed_);
  return FilePlace{.device = device_,
                   .inode = inode_,
                   .offset = consumed_,
                   .line_number = line_number_,
                   .head_hash = hash(head),
                   .tail_hash = hash(tail_before(fd_, consumed_))};
}

std::uint64_t FileFollower::bytes_ahead() const {
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) return 0;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return size > consumed_ ? size - consumed_ : 0;
}

std::optional<FileFollower::Line> FileFollower::next() {
  for (;;) {
    if (const auto line = whole_line()) return line;
    const Read read = read_on();
    if (read == Read::more) continue;
    if (read == Read::nothing) return std::nullopt;
    // What is unfinished will stay so. The file is looked at again when that has been handed out.
    if (const auto tail = take_tail()) return tail;
    if (read == Read::truncated) {
      ++truncations_;
      if (seen_size_ > read_offset_)
        spdlog::warn("{} was truncated: at least {} bytes of it were never read", path_,
                     seen_size_ - read_offset_);
      start_at(0);
    } else if (!open(successor(), 0)) {
      return std::nullopt;
    }
  }
}

FileFollower::Read FileFollower::read_on() {
  if (fd_ < 0 && !open(path_, 0)) return Read::nothing;
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return Read::nothing;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < read_offset_) return Read::truncated;
  const std::string chunk =
      read_at(fd_, read_offset_, std::min<std::uint64_t>(size - read_offset_, kChunkBytes));
  // After reading, so that bytes of another content cannot slip in between; and even when there is nothing to
  // read, because a file that was truncated may have its old size again.
  if (!is_what_was_read()) return Read::truncated;
  seen_size_ = size;
  if (!chunk.empty()) {
    remember(chunk);
    return Read::more;
  }
  if (keeps_to_file_) return Read::nothing;
  struct stat named {};
  if (::stat(path_.c_str(), &named) != 0 || (named.st_ino == inode_ && named.st_dev == device_))
    return Read::nothing;
  // The name was taken over. Whatever was written to this file before that is there by now.
  if (::fstat(fd_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) > size) return read_on();
  return Read::renamed;
}

bool FileFollower::is_what_was_read() const {
  return read_at(fd_, 0, head_.size()) == head_ && tail_before(fd_, read_offset_) == tail_;
}

void FileFollower::remember(std::string_view chunk) {
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  buffer_ += chunk;
  read_offset_ += chunk.size();
  bytes_read_ += chunk.size();
  if (head_.size() < kHeadBytes) head_ += chunk.substr(0, kHeadBytes - head_.size());
  tail_ += chunk.substr(chunk.size() - std::min(chunk.size(), kTailBytes));
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

std::optional<FileFollower::Line> FileFollower::whole_line() {
  // A writer that goes on at its old place after a truncation leaves a hole of NUL bytes before it.
  if (!skipping_ && searched_ == begin_) {
    while (begin_ < buffer_.size() && buffer_[begin_] == '\0') ++begin_;
    searched_ = begin_;
  }
  const std::size_t newline = buffer_.find('\n', searched_);
  if (newline != std::string::npos) return hand_out(newline - begin_, 1);
  searched_ = buffer_.size();
  if (searched_ - begin_ > limits::kMaxLineBytes) skipping_ = true;
  if (skipping_) begin_ = searched_;
  return std::nullopt;
}

FileFollower::Line FileFollower::hand_out(std::size_t size, std::size_t newline) {
  const bool too_long = skipping_ || size > limits::kMaxLineBytes;
  const Line line{.text = too_long ? std::string_view() : std::string_view(buffer_).substr(begin_, size),
                  .number = ++line_number_,
                  .too_long = too_long};
  begin_ += size + newline;
  searched_ = begin_;
  skipping_ = false;
  consumed_ = read_offset_ - (buffer_.size() - begin_);
  return line;
}

std::optional<FileFollower::Line> FileFollower::take_tail() {
  if (!has_tail()) return std::nullopt;
  return hand_out(buffer_.size() - begin_, 0);
}

// The file to read after a renamed one: usually the path's, but when it was rotated several times since,
// first those that it was renamed to meanwhile, oldest first.
std::string FileFollower::successor() {
  struct stat current {
  }, next_status{};
  if (::fstat(fd_, &current) != 0 || ::stat(path_.c_str(), &next_status) != 0) return path_;
  if (former_inodes_.size() == kFormerInodes) former_inodes_.erase(former_inodes_.begin());
  former_inodes_.push_back(inode_);
  std::string next = path_;
  for (const std::string& path : rotated_files(path_)) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || is_later(status.st_mtim, next_status.st_mtim)) continue;
    // Files written within one tick of the clock have the same time.
    const bool same_time = !is_later(status.st_mtim, current.st_mtim);
    if (is_later(current.st_mtim, status.st_mtim)) continue;
    if (same_time && std::ranges::find(former_inodes_, status.st_ino) != former_inodes_.end()) continue;
    next = path;
    next_status = status;
  }
  return next;
}

}  // namespace laggard::agent
