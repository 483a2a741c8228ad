// Jobs made up of numbers, whose truth is known: who is slow, since when, and what it costs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "daemon/base/settings.h"
#include "daemon/core/step_records.h"
#include "daemon/core/verdict.h"

namespace laggard::test {

enum class Trouble : std::uint8_t {
  none,         ///< ranks differ by noise alone
  slow_rank,    ///< one rank, in one stage
  slow_host,    ///< the eight ranks of one host
  slow_stage,   ///< one pipeline stage
  rotating,     ///< in every step another rank has more data
  inside_sync,  ///< one rank is late inside the all-reduce, which every rank sees as a longer all-reduce
  turns_slow,   ///< one rank, from some step on
  missing,      ///< one rank is slow, another dies on the way
  warm_up,      ///< the first ten steps take many times as long on one rank, nobody is slow afterwards
  pauses,       ///< one rank is slow, and three others pause once for ten steps' time
  graded        ///< every pipeline stage is slower than the one before, by a third of `slow`
};
inline constexpr std::size_t kTroubles = 11;
std::string_view name_of(Trouble trouble);

struct JobSpec {
  Trouble trouble = Trouble::none;
  std::uint32_t ranks = 8;  ///< a multiple of 8
  std::uint32_t steps = 60;
  double noise = 0.02;  ///< standard deviation of a rank's own time from step to step, of its mean
  double slow = 0.10;   ///< what the slow ones take longer, of their own time
  /// First-order autocorrelation of the noise.
  double autocorrelation = 0;
  std::uint64_t seed = 1;
};

/// One job: dp x pp (4) ranks, eight to a host. Every step is 475 ms of own time on an even rank in four
/// stages, and an all-reduce that ends at the same time everywhere.
class LabelledJob {
 public:
  explicit LabelledJob(const JobSpec& spec);

  const JobSpec& spec() const { return spec_; }
  /// Steps have to be asked for in order, from 1.
  core::StepRecords step(Step number);

  /// Where it runs.
  Settings settings(Rank rank) const;
  core::Placement placement() const;
  const core::StageTable& stages() const { return stages_; }
  const LayoutTable& layouts() const { return layouts_; }

  // The truth.
  const std::vector<Rank>& guilty() const { return guilty_; }
  std::string_view guilty_stage() const { return "forward"; }
  std::optional<Step> turned() const { return turned_; }
  /// Mean of what the steps so far, from `from` on, took, over what an even job without noise takes.
  double true_slowdown(Step from) const;

 private:
  double factor(Rank rank, Step number, Rank unlucky) const;

  JobSpec spec_;
  std::mt19937_64 random_;
  std::vector<Rank> guilty_;
  std::optional<Rank> dead_;
  std::optional<Step> turned_;
  std::map<Rank, Step> pauses_;
  core::StageTable stages_;
  LayoutTable layouts_;
  LayoutId layout_ = 0;
  std::vector<double> noise_;  // of each rank, in the step before
  std::vector<double> walls_;  // of the steps so far
};

}  // namespace laggard::test
