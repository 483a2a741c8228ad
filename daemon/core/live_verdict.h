// The verdict on the newest steps of an attempt, as they come.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/base/settings.h"
#include "daemon/core/snapshot.h"
#include "daemon/core/verdict_window.h"

namespace laggard::core {

/// The steps that the live verdict is over, further ones in which it looks for the step since when, and how
/// many own times may be kept: with more ranks there are fewer steps, down to kTentativeSteps.
inline constexpr std::size_t kLiveSteps = 100, kLiveStepsKept = 1000, kLiveCells = std::size_t{1} << 20;
/// Who is slow now is looked for in so many first.
inline constexpr std::size_t kLiveStepsRecent = 30;
inline constexpr VerdictWindow::Size kLiveWindow{
    .judged = kLiveSteps, .recent = kLiveStepsRecent, .kept = kLiveStepsKept, .cells = kLiveCells};
/// Without a configured window, this many steps at the start are taken for warm-up.
inline constexpr std::size_t kWarmUpSteps = 10;

/// Where a rank is by its settings, else by the host that its agent runs on.
Placement::Place place_of(Rank rank, const Settings& settings, const std::string& agent_host);

class LiveVerdict {
 public:
  LiveVerdict() : window_(kLiveWindow) {}

  void learn(Rank rank, const Settings& settings, const std::string& agent_host);
  /// A step that has settled, or whose figures have changed.
  void put(const StepView& view);
  /// It is open again.
  void drop(Step step);
  /// Stages are understood in another way: what was put has to be put again.
  void clear();
  /// So many of the attempt's steps came before those that are put from here on.
  void came_before(std::uint64_t steps) { before_ = steps; }
  /// Nobody is asked about the attempt any more: makes the verdict a last time and lets go of the own times.
  void rest(const StageTable& stages);
  /// The attempt was over before this collector started, so its steps, up to this one, are only in storage.
  void was_over(Step last) {
    was_over_ = true;
    rests_after_ = last;
  }

  /// The verdict, made again when anything has changed.
  std::shared_ptr<const VerdictView> view(const StageTable& stages);

 private:
  bool in_window(Step step) const;
  std::string sentence(const Verdict& verdict, const StageTable& stages) const;
  void warm_up(Step step);

  VerdictWindow window_;
  std::map<Rank, Placement::Place> places_;
  std::optional<Placement> placement_;  // of places_; made when it is asked for
  std::optional<Step> first_step_, last_step_;
  std::uint64_t before_ = 0;
  std::set<Step> warm_up_;  // steps that were put while before_ and they were kWarmUpSteps or fewer
  bool warm_ = false;
  bool was_over_ = false;
  std::optional<Step> aside_;                // the last step that came, when it was
  std::optional<Step> rests_after_;          // the last verdict stands until there are steps beyond this one
  std::shared_ptr<const VerdictView> view_;  // null when it is stale
};

}  // namespace laggard::core
