// What does not fit into memory and must not be lost yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace laggard::agent {

/// A file of bounded size, without a name, used in a circle: what was put in first has to be freed first. It
/// is gone with the process, as memory is.
class Spool {
 public:
  /// Throws Error when no file can be made in the directory.
  Spool(const std::string& directory, std::uint64_t bytes);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Where the text was put; nothing when there is no room, or the disk is full.
  std::optional<std::uint64_t> put(std::string_view text);
  /// The text of that size that was put there; nothing when it cannot be read.
  std::optional<std::string> get(std::uint64_t place, std::size_t size) const;
  /// Frees the text at this place, and whatever was put before it.
  void free(std::uint64_t place, std::size_t size);

 private:
  const std::uint64_t capacity_;
  const int fd_;
  // Places count up for ever; in the file they go round.
  std::uint64_t head_ = 0, tail_ = 0;
};

}  // namespace laggard::agent
