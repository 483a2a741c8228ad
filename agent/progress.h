// How far files were delivered, kept on disk for the agent's next start.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/attempt_state.h"
#include "agent/file_follower.h"
#include "daemon/base/record.h"

namespace laggard::agent {

struct RankProgress {
  AttemptState attempts;
  std::uint32_t attempt_offset = 0;
  bool operator==(const RankProgress&) const = default;
};

/// Everything before `place` is durable in the collector whose id this is.
struct FileProgress {
  std::string collector_id;
  FilePlace place;
  std::map<Rank, RankProgress> ranks;
  bool operator==(const FileProgress&) const = default;
};

/// One small JSON file for each followed file, run and collector address.
class ProgressStore {
 public:
  /// `directory` is made when it is missing.
  ProgressStore(std::string directory, std::string collector, std::string run);

  /// Nothing when there is none, or none that can be read.
  std::optional<FileProgress> load(const std::string& path) const;
  /// Replaces what was kept, at once or not at all. False when it could not be written; the first time that
  /// is logged.
  bool save(const std::string& path, const FileProgress& progress);

  /// $LAGGARD_STATE_DIR, else below $XDG_STATE_HOME, else below ~/.local/state.
  static std::string default_directory();

 private:
  std::string file_for(const std::string& path) const;

  const std::string directory_, collector_, run_;
  bool warned_ = false;
};

}  // namespace laggard::agent
