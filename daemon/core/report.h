// The summary of a run over a window of steps: the table people publish.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/profile.h"
#include "daemon/core/blocks.h"
#include "daemon/core/breakdown.h"
#include "daemon/core/model.h"
#include "daemon/core/step_records.h"
#include "daemon/core/verdict.h"

namespace laggard::core {

/// First and last step, both inclusive.
struct Window {
  std::optional<Step> from, to;
};

/// One row of the stage table. Times in ms.
struct StageRow {
  std::string name;
  std::string parent;  ///< "" on the top level
  int depth = 0;
  StageKind kind = StageKind::work;
  bool exclusive = false;  ///< a parent's time less its children's
  Clock clock = Clock::stream;
  double mean_ms = kAbsent;    ///< over the steps, on each step's slowest rank; absent counted as 0 there
  std::uint64_t present = 0;   ///< steps whose slowest rank had it
  std::uint64_t overlaps = 0;  ///< steps with a negative exclusive time
  BlockFigures blocks;         ///< of the same values
};

/// A stage of the rank that the others wait for, which is not the slowest by wall where walls are tied: mean
/// over steps of its time on the culprit, or, where a step has none, of the median rank.
struct CulpritStage {
  std::string name;
  StageKind kind = StageKind::work;
  double mean_ms = kAbsent;
};

struct RankWall {
  Rank rank = 0;
  double mean_ms = kAbsent;
  std::uint64_t steps = 0;  ///< with a valid wall
};

struct RatioRow {
  std::string name;
  double percent = kAbsent;  ///< kAbsent when a count is missing or the denominator is 0
};

struct LeftOut {
  std::vector<Step> aside;              ///< tagged, or with an aside stage
  std::vector<Step> incomplete;         ///< a rank that reported in the window is missing
  std::vector<Step> no_wall;            ///< no rank had a valid wall
  std::uint64_t before = 0, after = 0;  ///< stored steps outside the window
};

/// What must agree, step by step, for two runs to have done the same work.
struct StepWork {
  Step step = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t sample_hash = 0;               ///< of the multiset of sample indices over all ranks
  std::map<std::string, std::int64_t> counts;  ///< sums over all ranks of the profile's match_counts
  bool operator==(const StepWork&) const = default;
};

struct RunReport {
  std::string run;
  std::uint32_t attempt = 1;
  std::uint32_t world_size = 0;
  std::vector<Rank> ranks;           ///< that reported in the window
  std::vector<Rank> never_reported;  ///< expected, without one record in the attempt
  std::optional<Step> from, to;      ///< the window that was used
  std::string window_from;           ///< "asked", "configured" or "all but the first 10"
  std::uint64_t steps = 0;           ///< steps the figures are over
  LeftOut left_out;

  double max_rank_wall_ms = kAbsent;  ///< mean over steps of the slowest rank's wall
  double largest_rank_mean_ms = kAbsent;
  double median_wall_ms = kAbsent;     ///< over steps, of the slowest rank's wall
  double all_steps_mean_ms = kAbsent;  ///< over every stored step, whatever it is
  double all_steps_median_ms = kAbsent;
  double all_steps_total_ms = 0;
  double max_own_ms = kAbsent;     ///< mean over steps of the largest own time over the ranks
  double mean_own_ms = kAbsent;    ///< mean over steps of the mean own time over the ranks
  std::optional<Clock> own_clock;  ///< that own times are on; not set without any, or when it changes
  double slowdown = kAbsent;       ///< S: max-rank wall / (max-rank wall - (max_own_ms - mean_own_ms))
  BlockFigures wall_blocks, max_own_blocks, mean_own_blocks;
  std::optional<double> global_batch;
  double samples_per_s = kAbsent;  ///< global_batch / max-rank wall
  VerdictView verdict;             ///< empty when it was not asked for
  StageTable stage_table;          ///< with what the profile says
  std::vector<RankWall> rank_walls;
  std::vector<StageRow> stages;              ///< both clocks; order: the profile's, then the tree
  std::vector<CulpritStage> culprit_stages;  ///< on own_clock, in tree order
  std::vector<RatioRow> ratios;
  std::map<std::string, std::int64_t> count_sums;
  std::map<std::string, std::map<std::string, std::int64_t>> histograms;  ///< sums over ranks and steps
  std::string settings;                                                   ///< JSON object, of the lowest rank
  std::map<std::string, std::vector<Rank>> settings_disagree;  ///< key -> ranks whose value is not rank 0's
  std::vector<StepWork> work;
  std::uint64_t invalid_values = 0;
  std::vector<std::string> warnings;
};

/// Whether a report has a verdict, which keeps what it needs of the newest kJudgedCells own times.
enum class Judged : bool { no, yes };
inline constexpr std::size_t kJudgedCells = std::size_t{1} << 22;

/// Collects one run's steps; feed every stored step of the attempt, in ascending order.
class ReportBuilder {
 public:
  struct RunFacts {
    std::string run;
    std::uint32_t attempt = 1;
    std::uint32_t world_size = 0;
    std::vector<std::pair<Rank, std::string>> settings;  ///< each rank's config as a JSON object
    std::vector<Rank> known_ranks;                       ///< with a record anywhere in the attempt, ascending
    std::map<Rank, std::string> agent_hosts;             ///< for ranks whose settings name no host
  };
  /// `layouts` must outlive the builder. The profile's parents and kinds are added to
  /// the attempt's own.
  ReportBuilder(RunFacts facts, const StageTable& stages, const LayoutTable& layouts, const Profile& profile,
                Window asked, Judged judged = Judged::yes);
  ~ReportBuilder();
  ReportBuilder(ReportBuilder&&) noexcept;

  void add(const StepRecords& records);
  RunReport finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// S: a wall over the wall of an even job, in which every rank had the mean own time; kAbsent when it is not
/// known.
double slowdown_of(double wall_ms, double max_own_ms, double mean_own_ms);

/// Settings that by their nature differ between ranks or runs, and those the profile lets differ.
std::set<std::string> free_settings(const Profile& profile);

struct Mismatch {
  std::string what;   ///< "sample indices", "valid_tokens", "setting seed", "world size", "window"
  std::string where;  ///< "step 14: run1 ..., run2 ..."
};

/// Whether all the runs did the same work, so that their figures can be compared.
struct Match {
  bool pass = false;
  bool checked = false;               ///< false for a single run
  std::vector<std::string> compared;  ///< what was looked at, in words
  std::vector<Mismatch> mismatches;   ///< the first of each kind
};
Match match_runs(const std::vector<const RunReport*>& reports, const Profile& profile);
Match match_runs(const std::vector<RunReport>& reports, const Profile& profile);

}  // namespace laggard::core
