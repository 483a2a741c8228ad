// The steps that settled last, as events to send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "daemon/core/snapshot.h"

namespace laggard::serve {

/// Remembers the newest limits::kMaxEventsRemembered events of all runs. Not thread-safe.
class EventLog {
 public:
  /// Takes what has settled since the last snapshot. A step that settled twice in between (partial, then
  /// late-completed) is one event.
  void update(std::shared_ptr<const core::Snapshot> snapshot);

  struct Start {
    std::uint64_t position = 0;
    bool gap = false;  ///< `after` is a number that this log has never given
  };
  /// Where a client begins that has seen everything up to `after`, or nothing.
  Start start(std::optional<std::uint64_t> after) const;

  struct Batch {
    std::string text;  ///< as sent; "" when there is nothing new
    std::uint64_t position = 0;
    std::uint64_t events = 0;
  };
  /// Events of the run ("" for all runs) after the position, up to about `max_bytes`. A gap event stands
  /// where some of that run may be missing.
  Batch read(std::uint64_t position, const std::string& run, std::size_t max_bytes) const;

  /// True when events after the position have been forgotten.
  bool has_forgotten_after(std::uint64_t position) const { return position < forgotten_; }

 private:
  struct Event {
    std::uint64_t number = 0;
    std::string run;
    std::string text;
  };
  void collect(const core::RunView& run, std::deque<Event>* found) const;

  std::deque<Event> events_;     // ascending
  std::uint64_t newest_ = 0;     // the newest number that was given, remembered or not
  std::uint64_t forgotten_ = 0;  // the newest number that was dropped from events_
  std::shared_ptr<const core::Snapshot> last_;
};

inline constexpr const char* kGapEvent = "event: gap\ndata: {}\n\n";

}  // namespace laggard::serve
