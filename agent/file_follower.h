// The lines of one file that is still being written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace laggard::agent {

/// How far a file was read, and enough of it to know it again.
struct FilePlace {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t offset = 0;       ///< after the last whole line
  std::uint64_t line_number = 0;  ///< of that line
  std::uint64_t head_hash = 0;    ///< of the file's first bytes, up to 1 KiB of those before `offset`
  std::uint64_t tail_hash = 0;    ///< of the last bytes before `offset`, up to 64

  bool operator==(const FilePlace&) const = default;
};

/// Reads a path line by line through everything that log rotation does to it: it reads a renamed file to its
/// end before the one that took its name, and starts again in a file that was truncated, even when that has
/// grown beyond the old place since. It never blocks and never throws; a file that does not exist has no
/// lines yet.
class FileFollower {
 public:
  struct Line {
    std::string_view text;  ///< without its newline; valid until the next call
    std::uint64_t number;   ///< in its file, from 1
    bool too_long = false;  ///< longer than limits::kMaxLineBytes; `text` is empty
  };

  explicit FileFollower(std::string path) : path_(std::move(path)) {}
  ~FileFollower() { close(); }
  FileFollower(const FileFollower&) = delete;
  FileFollower& operator=(const FileFollower&) = delete;

  /// Goes on at a place where an earlier follower stopped, in the path's file or in the one it was renamed
  /// to. False, and nothing done, when neither is the file it was.
  [[nodiscard]] bool resume(const FilePlace& place);

  /// The next line; nothing when there is no whole one at present. A file that was replaced or truncated ends
  /// its last line with it.
  std::optional<Line> next();
  /// The unfinished last line, for a file that will not grow any more.
  std::optional<Line> take_tail();
  bool has_tail() const { return begin_ < buffer_.size() || skipping_; }

  /// Never goes on in the file that takes the name over; for what rotation made of another followed file,
  /// which the next rotation renames.
  void keep_to_file() { keeps_to_file_ = true; }

  const std::string& path() const { return path_; }
  /// Why the file cannot be opened; "" when it is open or does not exist. Each look tries again.
  const std::string& problem() const { return problem_; }
  /// Where the last line handed out ended; nothing when no file was read.
  std::optional<FilePlace> place() const;
  /// How often the file was truncated: lines written just before that may never have been seen.
  std::uint64_t truncations() const { return truncations_; }
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// Bytes of the file behind the last line handed out.
  std::uint64_t bytes_ahead() const;

 private:
  enum class Read : std::uint8_t { more, nothing, truncated, renamed };

  bool open(const std::string& path, std::uint64_t offset);
  void start_at(std::uint64_t offset);
  void close();
  bool resume_in(const std::string& path, const FilePlace& place);
  Read read_on();
  std::optional<Line> whole_line();
  Line hand_out(std::size_t size, std::size_t newline);
  bool is_what_was_read() const;
  void remember(std::string_view chunk);
  std::string successor();

  const std::string path_;
  bool keeps_to_file_ = false;
  std::string problem_;
  int fd_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;
  std::uint64_t read_offset_ = 0;  // where the next bytes of the file are read
  std::uint64_t seen_size_ = 0;    // of the file when it was read last
  std::uint64_t consumed_ = 0;     // where the last line handed out ended
  std::uint64_t line_number_ = 0;
  std::string head_, tail_;  // the first bytes of the file, and the last before read_offset_

  std::string buffer_;        // bytes read and not handed out, from begin_
  std::size_t begin_ = 0;     // of the next line
  std::size_t searched_ = 0;  // up to here there is no newline
  bool skipping_ = false;     // within a line that is too long

  std::vector<std::uint64_t> former_inodes_;  // of renamed files that were read to their end
  std::uint64_t truncations_ = 0, bytes_read_ = 0;
};

}  // namespace laggard::agent
