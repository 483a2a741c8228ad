// One followed file and the sources that its lines feed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/file_follower.h"
#include "agent/line_counts.h"
#include "agent/line_parser.h"
#include "agent/progress.h"
#include "agent/rank_source.h"

namespace laggard::agent {

/// Makes the sources of one agent process: each with a channel and a random id of its own.
class SourceFactory {
 public:
  SourceFactory(std::string run, std::vector<StageInfo> stages);
  /// `most_records` as RankSource takes it.
  std::unique_ptr<RankSource> make(const std::string& origin, Rank rank, const RankProgress& start,
                                   bool resumed, std::optional<std::size_t> most_records = std::nullopt);

 private:
  const std::string run_;
  const std::vector<StageInfo> stages_;
  SourceIdentity identity_;
  std::uint32_t next_channel_ = 0;
};

/// Reads lines, counts what became of each, and puts the records into the source of their rank.
class FileFeed {
 public:
  struct RankFeed {
    std::unique_ptr<RankSource> source;
    std::uint64_t updates = 0, configs = 0, ends = 0;
    bool ended = false;  ///< its last line was an end
  };

  FileFeed(std::string path, SourceFactory& sources) : follower_(std::move(path)), sources_(sources) {}

  /// Goes on where an earlier agent stopped; false when the file is no longer what it was.
  [[nodiscard]] bool resume(const FileProgress& progress);
  /// So that each of many files has its turn.
  static constexpr std::size_t kBytesPerPump = std::size_t{1} << 20;
  /// Reads up to so many bytes of lines, at least one line, and closes the batches begun. True when it
  /// stopped for that or for a full window: more lines may be there.
  bool pump(std::size_t most = kBytesPerPump);
  /// True when a window is full: nothing is read until more is committed.
  bool full() const;
  /// Takes the unfinished last line for a whole one; the file will not grow any more.
  void finish();

  /// See FileFollower.
  void keep_to_file() { follower_.keep_to_file(); }

  const std::string& path() const { return follower_.path(); }
  const FileFollower& follower() const { return follower_; }
  const LineCounts& counts() const { return counts_; }
  const std::map<Rank, RankFeed>& ranks() const { return ranks_; }
  /// The sources made since the last call.
  std::vector<RankSource*> take_new_sources() { return std::exchange(new_sources_, {}); }
  std::size_t window_bytes() const;

  /// Notes the present place; it becomes progress once all that was read before it is committed.
  void begin_checkpoint();
  /// The noted place when everything before it is committed by now, without the collector's id. When a rank's
  /// attempts were renumbered since, perhaps because of what stands behind that place, a new one is noted.
  std::optional<FileProgress> take_checkpoint();

 private:
  struct Checkpoint {
    FileProgress progress;
    std::vector<std::pair<const RankSource*, std::uint64_t>> needs;  // seq that each must have committed
  };

  void take(const FileFollower::Line& line);
  void take(std::uint64_t line_number, const ParsedLine& parsed);
  RankFeed* feed_of(Rank rank);

  FileFollower follower_;
  SourceFactory& sources_;
  LineParser parser_;
  LineCounts counts_;
  std::map<Rank, RankFeed> ranks_;
  std::vector<RankSource*> new_sources_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<FilePlace> kept_;  // the place of the last checkpoint taken
};

}  // namespace laggard::agent
