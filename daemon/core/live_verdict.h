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
/// many own times may be kept for that.
inline constexpr std::size_t kLiveSteps = 100, kLiveStepsKept = 1000, kLiveCells = std::size_t{1} << 20;
/// Without a configured window, this many steps at the start are taken for warm-up.
inline constexpr std::size_t kWarmUpSteps = 10;

/// Where a rank is by its settings, else by the host that its agent runs on.
Placement::Place place_of(Rank rank, const Settings& settings, const std::string& agent_host);

class LiveVerdict {
 public:
  LiveVerdict() : window_({.judged = kLiveSteps, .kept = kLiveStepsKept, .cells = kLiveCells}) {}

  void learn(Rank rank, const Settings& settings, const std::string& agent_host);
  /// A step that has settled, or whose figures have changed.
  void put(const StepView& view);
  /// It is open again.
  void drop(Step step);
  /// Stages are understood in another way: what was put has to be put again.
  void clear();
  /// What is put from here on is not the attempt's beginning.
  void is_warm() { warm_ = true; }

  /// The verdict, made again when anything has changed.
  std::shared_ptr<const VerdictView> view(const StageTable& stages);

 private:
  bool in_window(Step step) const;

  VerdictWindow window_;
  std::map<Rank, Placement::Place> places_;
  std::optional<Placement> placement_;  // of places_; made when it is asked for
  std::optional<Step> first_step_, last_step_;
  std::set<Step> warm_up_;
  bool warm_ = false;
  std::shared_ptr<const VerdictView> view_;  // null when it is stale
};

}  // namespace laggard::core
