#include "daemon/core/snapshot.h"

#include <algorithm>

namespace laggard::core {

StepPoint point_of(const StepView& view, std::uint64_t event) {
  const StepBreakdown& breakdown = view.breakdown;
  StepPoint point{.step = breakdown.step,
                  .state = view.state,
                  .present = breakdown.present,
                  .expected = view.expected,
                  .wall_max_ms = breakdown.wall.max,
                  .slowest = breakdown.slowest,
                  .near_tie = breakdown.near_tie,
                  .event = event};
  if (breakdown.culprit.has_value()) point.culprit = breakdown.culprit->rank;
  return point;
}

DeliveryCounts& DeliveryCounts::operator+=(const DeliveryCounts& other) {
  stored += other.stored;
  duplicate += other.duplicate;
  conflict += other.conflict;
  late += other.late;
  rejected += other.rejected;
  dropped += other.dropped;
  invalid_values += other.invalid_values;
  return *this;
}

Moment moment_of(const Snapshot& snapshot, UnixMs now) {
  // A collector that takes records makes a snapshot several times a second.
  constexpr UnixMs kSnapshotAgeMs = 1000;
  return {now, std::min(now, snapshot.taken_at + kSnapshotAgeMs)};
}

bool is_silent(const AttemptView& attempt, const RankView& rank, UnixMs now) {
  if (rank.ended || rank.finished) return false;
  const bool behind =
      attempt.newest_step.has_value() && (!rank.reported || rank.last_step < *attempt.newest_step);
  const UnixMs since = rank.reported ? rank.last_received : attempt.first_received;
  if (now - since <= attempt.silent_after_ms) return false;
  // A rank that is level with the others is not silent because its next step is long, unless nothing feeds
  // it any more.
  return behind || !rank.live;
}

std::uint32_t reporting_at(const AttemptView& attempt, UnixMs now) {
  return static_cast<std::uint32_t>(
      std::count_if(attempt.ranks.begin(), attempt.ranks.end(),
                    [&](const RankView& rank) { return rank.reported && !is_silent(attempt, rank, now); }));
}

RunState state_at(const AttemptView& attempt, bool closed, UnixMs now) {
  const bool all_over = std::all_of(attempt.ranks.begin(), attempt.ranks.end(), [](const RankView& rank) {
    return !rank.reported || rank.ended || rank.finished;
  });
  const bool any_reported = std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                                        [](const RankView& rank) { return rank.reported; });
  if (closed || (all_over && any_reported)) return RunState::ended;
  const std::int64_t age = now - attempt.last_received;
  if (age > attempt.lost_after_ms) return RunState::lost;
  if (age > attempt.stalled_after_ms) return RunState::stalled;
  return RunState::running;
}

}  // namespace laggard::core
