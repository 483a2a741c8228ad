// Delivers files to a collector: what laggard-agent and `laggard import` do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/line_counts.h"
#include "agent/messages.h"
#include "daemon/base/profile.h"
#include "daemon/base/record.h"
#include "daemon/keys/key.h"

namespace laggard::agent {

struct DeliveryProgress {
  std::uint64_t bytes_read = 0;
  std::uint64_t items_committed = 0;
  std::uint64_t items_waiting = 0;  ///< read and not committed
};

struct DeliveryOptions {
  std::string collector;               ///< "tcp://127.0.0.1:17600"
  std::optional<keys::PeerKeys> keys;  ///< for a collector that wants them
  std::string run;
  std::vector<std::string> files;  ///< paths and, when following, glob patterns
  bool once = false;               ///< to the end of the files and no further, always from their start
  bool poll = false;               ///< never inotify
  std::vector<StageInfo> stages;   ///< of a job profile
  std::string state_directory;     ///< where progress is kept when following; "" keeps none
  int stop_fd = -1;                ///< becomes readable when the delivery has to stop
  /// Called several times a second; may be empty.
  std::function<void(const DeliveryProgress&)> on_progress;
};

/// A delivery with `once` gives up when it hears nothing from a collector for so long.
inline constexpr std::chrono::seconds kGiveUp{10};
/// A delivery that was told to stop takes at most so long to read and send what is there.
inline constexpr std::chrono::seconds kStopLimit{2};

struct RankReport {
  Rank rank = 0;
  std::uint64_t updates = 0, configs = 0, ends = 0;
  Deliveries deliveries;          ///< as the collector counts
  std::uint64_t undelivered = 0;  ///< items without an acknowledgement
  std::string refusal;            ///< why the collector refused the source, or ""
};

struct FileReport {
  std::string path;
  LineCounts lines;
  std::uint64_t truncations = 0;
  std::uint64_t resumed_behind_line = 0;  ///< 0 when it was read from its start
  std::uint64_t unread_bytes = 0;  ///< left in the file, since nobody took what was read; no pending tail
  std::vector<RankReport> ranks;
};

struct DeliveryReport {
  std::vector<FileReport> files;
  bool collector_reached = false;  ///< false when there was something to deliver and nobody answered
  std::string no_connection;       ///< what stood between the two at the end, as far as it is known, or ""
  std::uint64_t undelivered() const;
};

/// The stages that a profile knows something about, as they are told to a collector.
std::vector<StageInfo> stages_of(const Profile& profile);

/// Runs a delivery to its end: of the files with `once`, else until `stop_fd` becomes readable. Throws Error
/// for an address or a run's name that cannot be one and, with `once`, for a file that cannot be read; all
/// else is in the report.
DeliveryReport deliver_files(const DeliveryOptions& options);

}  // namespace laggard::agent
