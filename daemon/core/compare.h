// Did a change help? Runs before it against runs after it, so that neither noise nor drift passes for an
// answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/report.h"
#include "daemon/core/run_order.h"
#include "daemon/core/statistics.h"

namespace laggard::core {

/// One run of either side: its report over the window, and when its records came.
struct ComparedRun {
  RunReport report;
  UnixMs first_received = 0, last_received = 0;
};

/// What stands for a repetition in a row.
enum class Estimate : std::uint8_t {
  run_means,      ///< one mean over the steps for each run
  block_medians,  ///< one run a side: the median of each block of its steps
  block_means,  ///< the same for a stage that is not in every step: a median would tell how often it is there
};

/// Which way a difference points, when the repetitions agree on it.
enum class Finding : std::uint8_t {
  unknown,  ///< fewer than two runs on a side, or a value is missing
  inside,   ///< inside the spread between repetitions, or of different signs
  beyond,   ///< the same sign in every pairing of repetitions, and beyond the spread between them
};

/// How many spreads (standard deviations between repetitions) a difference must exceed: with two runs on a
/// side, whose spread says little of itself; and with more on both, when its interval leaves out 0 as well.
inline constexpr double kSpreadsOfTwo = 3, kSpreads = 1;

/// What a row is of, and its unit.
enum class Figure : std::uint8_t {
  max_rank_wall,  ///< ms: DESIGN's max-rank wall
  throughput,     ///< samples per second
  max_own,        ///< ms: mean over steps of the largest own time
  mean_own,       ///< ms: mean over steps of the mean own time
  slowdown,       ///< S, without a unit
  stage,          ///< ms: a stage row of the report
};

struct ComparedRow {
  Figure figure = Figure::stage;
  std::string name;    ///< of the stage
  std::string parent;  ///< "" on the top level
  int depth = 0;
  bool exclusive = false;
  Clock clock = Clock::stream;
  StageKind kind = StageKind::work;

  std::vector<double> base_runs, new_runs;  ///< the report's figure of each run; kAbsent where a run has none
  Estimate estimate = Estimate::run_means;
  double base = kAbsent, newer = kAbsent;  ///< means over the repetitions
  double difference = kAbsent;             ///< newer - base; kAbsent when a run lacks the figure
  Interval interval;                       ///< of the difference
  double spread = kAbsent;                 ///< between repetitions: pooled_deviation()
  double hodges_lehmann = kAbsent;
  double rank_p = kAbsent;  ///< exact, two-sided; kAbsent when so few runs could never reach kSignificance
  Finding finding = Finding::unknown;
  bool cause = false;                 ///< one of Comparison::causes
  std::uint64_t present = 0, of = 0;  ///< steps, of all runs, in which the stage was there
};

/// A ratio of the profile or a sum of counts, shown beside and never a proof of anything. Means over runs.
struct ComparedCount {
  std::string name;
  bool percent = false;
  double base = kAbsent, newer = kAbsent;
};

struct Comparison {
  std::vector<ComparedRun> base, newer;
  Match match;
  Order order;
  std::size_t blocks_base = 0, blocks_new = 0;  ///< with one run a side; 0: too few steps, or not used
  bool paired_blocks = false;                   ///< both runs counted the same steps
  double smallest_rank_p = 1;                   ///< that so many runs can reach
  std::vector<ComparedRow> rows;                ///< the wall first, then the other figures, then the stages
  std::vector<ComparedCount> counts;
  /// Rows that are named as causes, by index, the largest difference first. They are disjoint: their
  /// differences may be added up.
  std::vector<std::size_t> causes;

  /// On which the stages are told: stream when every run has a stage on it.
  Clock clock = Clock::stream;
  /// The own times of some runs are on the stream's clock, those of others on the host's: they and S have no
  /// difference.
  bool own_clocks_differ = false;

  const ComparedRow& wall() const { return rows.front(); }
  /// Whether the spread between runs is in the intervals.
  bool is_run_to_run_measured() const { return base.size() + newer.size() > 2; }
};

/// Neither side may be empty. `profile` says what may differ and how the stages nest.
Comparison compare_runs(std::vector<ComparedRun> base, std::vector<ComparedRun> newer,
                        const Profile& profile);

/// Sets ComparedRow::cause and Comparison::causes. A stage is named only when the wall's difference and its
/// own are Finding::beyond and it is at least a hundredth of the wall's. Of a stage and those inside of it
/// the inner ones are named, unless they cancel each other out or none of them can be: then the outer one is.
void name_causes(Comparison& comparison);

/// The answer in sentences, the most important one first: what changed and by how much, what carries it.
std::vector<std::string> conclusions(const Comparison& comparison);
/// What the answer does not cover: order, repetitions, missing stages, equal runs.
std::vector<std::string> caveats(const Comparison& comparison);

std::string_view name_of(Estimate estimate);
std::string_view name_of(Finding finding);
std::string_view name_of(Figure figure);

}  // namespace laggard::core
