// Who holds the job back over a window of steps, in which stage, since when, and what that costs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/record.h"
#include "daemon/base/value.h"
#include "daemon/core/model.h"

namespace laggard::core {

enum class VerdictKind : std::uint8_t {
  unknown,   ///< nothing to judge by: under two ranks with own times, or under kVerdictSteps steps, own times
             ///< that cannot be parts of the step, or that are even and contain waiting for all one knows
  balanced,  ///< an even job would gain less than 3 %
  one_rank,  ///< the same rank makes the others wait
  several_ranks,  ///< the same few ranks do, and have nothing in common
  one_group,      ///< they are one host, one value of a topology key, or neighbours
  rotating,       ///< another rank in every step, as with uneven data
  inside_sync,    ///< own times are even, and sync stages are long enough to hide a late rank
};
std::string_view name_of(VerdictKind kind);

/// Ranks that have a place in common.
struct RankGroup {
  std::string key;          ///< "host", a topology key such as "pp", or "ranks" for neighbours
  std::string value;        ///< "node12", "3", "16-23"
  std::vector<Rank> ranks;  ///< ascending
};

/// What is known of where the ranks are.
class Placement {
 public:
  struct Place {
    Rank rank = 0;
    std::string host;
    std::map<std::string, std::string> topology;
  };
  Placement() = default;
  explicit Placement(const std::vector<Place>& places);

  /// Groups of two ranks or more: by host, then pp, tp, dp, then other topology keys by name.
  const std::vector<RankGroup>& groups() const { return groups_; }
  /// "" when it is not known.
  const std::string& host_of(Rank rank) const;

 private:
  std::vector<RankGroup> groups_;
  std::map<Rank, std::string> hosts_;
};

/// Steps of a window in which one rank was the culprit.
struct CulpritShare {
  Rank rank = 0;
  std::uint64_t steps = 0;
  double share = 0;                ///< of the window's steps
  double mean_excess_ms = 0;       ///< over all steps of the window: own time less the other ranks' median
  StageId stage = kNoStage;        ///< in which it exceeded them most in these steps
  std::optional<Step> gone_after;  ///< the last of these steps, when the rank is not there any more
};

/// The step time if something took as long as it does on the median rank.
struct WhatIf {
  enum class Of : std::uint8_t { stage, rank, group } of = Of::stage;
  StageId stage = kNoStage;
  Rank rank = 0;
  std::string key, value;  ///< of a group
  double wall_ms = 0;      ///< mean over the window's steps
};

/// The ranks that were found to hold the others back. Means are over the steps from `since` on, or before
/// `until`, where they are set, else over the window.
struct Held {
  std::vector<Rank> ranks;         ///< ascending
  std::optional<RankGroup> group;  ///< when they are one
  std::optional<Step> since;       ///< they turned slow at this step
  std::optional<Step> until;       ///< they are slow no longer from this step on
  std::uint64_t steps = 0;         ///< judged in that time
  std::uint64_t present = 0;       ///< of these, with the ranks; the means are over them, but for long pauses
  double excess_ms = 0;            ///< own time less that of the other ranks (their median; of a group: mean)
  double share = 0;                ///< of the steps, those whose culprit is one of them
  StageId stage = kNoStage;        ///< in which they exceed the other ranks most
  /// Over the other ranks' median, counting the steps in which a rank exceeds them most in another stage as
  /// 0: it is at least so much.
  double stage_excess_ms = 0;
  /// Of each rank, when a few that are no group exceed the others in different stages, and `stage` is
  /// kNoStage; else empty.
  std::vector<StageId> stages;
  /// What their stages cover more than the others' median, in the steps whose culprit is one of them: as much
  /// as they exceed the others when nobody waits for them in a stage.
  double more_covered_ms = 0;
  double wall_ms = 0;   ///< the mean step over those steps
  double slowdown = 1;  ///< S over those steps

  /// Whether the stage explains at least half of the excess.
  bool is_one_stage() const { return stage != kNoStage && 2 * stage_excess_ms >= excess_ms; }
};

/// Ranks whose stages cover less of the steps than the usual rank's: nothing tells what they do else, or for
/// whom they wait.
struct Outside {
  std::vector<Rank> ranks;           ///< ascending; none: there are no such ranks
  double least_ms = 0, most_ms = 0;  ///< a step less than the median rank: of the rank with least, with most
};

/// Times in ms.
struct Verdict {
  VerdictKind kind = VerdictKind::unknown;
  bool tentative = true;            ///< the verdict is over fewer steps than kTentativeSteps
  std::optional<Step> from, to;     ///< first and last step that was judged
  std::uint64_t steps = 0;          ///< judged: own times known, not aside
  std::uint64_t partial_steps = 0;  ///< of these, with a rank missing
  std::uint64_t odd_steps = 0;      ///< not judged: an own time is more than kOddWalls times the wall
  std::uint32_t ranks = 0;          ///< with own times
  std::vector<Rank>
      unjudged;  ///< whose own time is unknown in half of the steps or more, though they have stages
  Outside outside;
  double wall_ms = 0;      ///< mean over the steps of the slowest rank's wall
  double max_own_ms = 0;   ///< mean over the steps of the largest own time
  double mean_own_ms = 0;  ///< mean over the steps of the mean own time of the ranks
  /// S = T / (T - (max own - mean own)), T the mean wall: what an even job would gain.
  double slowdown = 1;
  double lost_ms = 0;  ///< per step: max own - mean own
  /// Own times add up to more than the step: some stages contain others, and nothing says which.
  bool counted_twice = false;
  std::optional<Held> held;
  std::vector<CulpritShare> culprits;  ///< at most kCulpritsListed, the most frequent first
  std::vector<WhatIf> what_if;         ///< that would gain kWorthListing of the step, the most first
  double least_sync_ms = kAbsent;  ///< mean over the steps, of the rank that has least; kAbsent without any
  StageId longest_sync = kNoStage;
  /// Whether any stage is known to contain waiting. If none is, waiting may have been taken for work.
  bool has_sync() const { return is_valid(least_sync_ms); }
};

inline constexpr std::size_t kCulpritsListed = 8, kWhatIfListed = 12;
inline constexpr std::uint64_t kVerdictSteps = 3;
inline constexpr std::uint64_t kTentativeSteps = 20;
/// A job whose S is below is balanced.
inline constexpr double kBalanced = 1.03;
/// An own time that cannot be: one such step says nothing, and most steps being such is a matter of nesting.
inline constexpr double kOddWalls = 2;
/// Where no stage is known as sync and the mean own time is so much of the step, even own times say nothing.
inline constexpr double kAllOwn = 0.9;
/// Sync stages can hide a late rank when even the rank that waits least spends so much of the step in them,
/// or when they differ between the ranks by more than own times account for, kBalanced taken as the measure.
inline constexpr double kHidingSync = 0.25;

/// "3, 9 and 4 more", with so many of them at most.
std::string list_of(const std::vector<Rank>& ranks, std::size_t most);

/// The verdict in one sentence.
std::string sentence_of(const Verdict& verdict, const StageTable& stages, const Placement& placement);

/// A verdict with its sentence, for those who show it.
struct VerdictView {
  Verdict verdict;
  std::string sentence;
};

}  // namespace laggard::core
