#include "daemon/core/own_time.h"

#include <algorithm>

namespace laggard::core {
namespace {

// Times beyond it are nonsense, and infinite in single precision.
float single(double ms) { return static_cast<float>(std::clamp(ms, -1e30, 1e30)); }

bool any_valid(const Cells& cells, const StageTable& stages) {
  for (StageId stage = 0; stage < stages.size(); ++stage)
    if (has_valid(cells, stage)) return true;
  return false;
}

/// The own time of each record: kAbsent where no stage was measured, kNull where a value is missing that it
/// would have to contain. What a sync stage took is in it only where it has to be taken off a parent's time.
std::vector<double> sum_own(const StageTimes& times, const StageTable& stages) {
  struct OwnSum {
    double own_ms = 0;
    bool measured = false, known = true;
  };
  std::vector<OwnSum> sums(times.inclusive.records());
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const bool counts = stages[stage].kind != StageKind::sync;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double time = times.inclusive.at(stage, i), exclusive = times.exclusive.at(stage, i);
      if (state_of(time) == ValueState::absent) continue;
      sums[i].measured = true;
      if (!counts) continue;
      sums[i].known = sums[i].known && is_valid(time) && state_of(exclusive) != ValueState::null;
      sums[i].own_ms += exclusive;
    }
  }
  std::vector<double> own;
  own.reserve(sums.size());
  for (const OwnSum& sum : sums)
    own.push_back(!sum.measured ? kAbsent : sum.known ? std::max(sum.own_ms, 0.0) : kNull);
  return own;
}

/// What a stage takes of a rank's own time: nothing where the rank does not have it.
double part_of_own(const StageTimes& times, StageId stage, std::size_t record) {
  return state_of(times.inclusive.at(stage, record)) == ValueState::absent
             ? 0
             : times.exclusive.at(stage, record);
}

/// Fills in what concerns single stages of the ranks in `columns`, whose own times are known.
class StageScan {
 public:
  StageScan(OwnTimes& out, std::span<const std::size_t> columns, const StageTimes& times,
            const StageTable& stages)
      : out_(out),
        columns_(columns),
        times_(times),
        stages_(stages),
        sync_(columns.size(), kAbsent),
        excess_(columns.size()) {
    out_.stage.assign(columns.size(), kNoStage);
    largest_own_ = *std::ranges::max_element(out_.own_ms);
  }

  void run() {
    for (StageId stage = 0; stage < stages_.size(); ++stage) {
      const bool is_sync = stages_[stage].kind == StageKind::sync;
      std::size_t measured = 0;
      values_.clear();
      for (const std::size_t column : columns_) {
        measured += is_measured(stage, column) ? 1 : 0;
        if (!is_sync || is_measured(stage, column))
          values_.push_back(is_sync ? times_.exclusive.at(stage, column)
                                    : part_of_own(times_, stage, column));
      }
      if (measured == 0) continue;
      const Middle middle(values_);
      if (is_sync)
        add_sync(stage, middle.median());
      else
        add_own(stage, middle);
    }
    add_excess();
    for (const double sync : sync_) {
      if (!is_valid(sync)) continue;
      if (!(out_.least_sync_ms <= sync)) out_.least_sync_ms = sync;
      if (!(out_.most_sync_ms >= sync)) out_.most_sync_ms = sync;
    }
  }

  /// Call run() before.
  std::optional<Culprit> culprit(const Spread& own, double wall_ms) const {
    if (own.present < 2 || !is_valid(wall_ms)) return std::nullopt;
    const double excess = own.max - own.median;
    if (!(excess > kCulpritExcess * wall_ms)) return std::nullopt;
    const auto at =
        static_cast<std::size_t>(std::ranges::lower_bound(out_.ranks, own.max_rank) - out_.ranks.begin());
    return Culprit{.rank = own.max_rank,
                   .own_excess_ms = excess,
                   .stage = out_.stage[at],
                   .stage_excess_ms = excess_[at]};
  }

 private:
  // A stage that stands in for another one, which the rank then lacks, explains no more than the rank's own
  // time exceeds that of the others.
  void add_excess() {
    std::vector<double> own(out_.own_ms.begin(), out_.own_ms.end());
    const Middle middle(own);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const double mine = out_.own_ms[i];
      const double most = columns_.size() == 1 ? mine : std::max(mine - middle.median_without(mine), 0.0);
      out_.stage_excess_ms.push_back(single(std::min(excess_[i], most)));
    }
  }

  bool is_measured(StageId stage, std::size_t column) const {
    return is_valid(times_.inclusive.at(stage, column)) &&
           state_of(times_.exclusive.at(stage, column)) != ValueState::null;
  }

  void add_sync(StageId stage, double median) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!is_measured(stage, columns_[i])) continue;
      const double time = times_.exclusive.at(stage, columns_[i]);
      sync_[i] = is_valid(sync_[i]) ? sync_[i] + time : time;
    }
    if (median > longest_sync_ms_) out_.longest_sync = stage;
    longest_sync_ms_ = std::max(longest_sync_ms_, median);
  }

  void add_own(StageId stage, const Middle& middle) {
    double largest = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const double time = part_of_own(times_, stage, columns_[i]);
      const double own = out_.own_ms[i] - (time - middle.median());
      largest = std::max(largest, own);
      if (!is_measured(stage, columns_[i])) continue;
      const double excess = columns_.size() == 1 ? time : time - middle.median_without(time);
      if (out_.stage[i] != kNoStage && excess <= excess_[i]) continue;
      out_.stage[i] = stage;
      excess_[i] = excess;
    }
    out_.recoverable.push_back({stage, single(largest_own_ - largest)});
  }

  OwnTimes& out_;
  std::span<const std::size_t> columns_;
  const StageTimes& times_;
  const StageTable& stages_;
  std::vector<double> sync_;    // of each column, over all sync stages
  std::vector<double> excess_;  // of each column, in its stage
  std::vector<double> values_;
  double largest_own_ = 0, longest_sync_ms_ = 0;
};

}  // namespace

OwnTimesOfStep measure_own(std::span<const RecordView> records, const StageTimes& stream,
                           const StageTimes& host, const StageTable& stages, double wall_ms) {
  OwnTimesOfStep out{.clock = any_valid(stream.inclusive, stages) ? Clock::stream : Clock::host};
  const StageTimes times = out.clock == Clock::stream ? times_compared(stream, host, stages) : host;
  const std::vector<double> own = sum_own(times, stages);
  std::vector<double> valid;
  out.own = spread_of(own, records, valid);
  auto ranks = std::make_shared<OwnTimes>();
  if (!valid.empty()) {
    out.own.median = Middle(valid).median();
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (state_of(own[i]) == ValueState::null) ranks->unknown.push_back(records[i].rank);
      if (!is_valid(own[i])) continue;
      columns.push_back(i);
      ranks->ranks.push_back(records[i].rank);
      ranks->own_ms.push_back(single(own[i]));
    }
    StageScan scan(*ranks, columns, times, stages);
    scan.run();
    out.culprit = scan.culprit(out.own, wall_ms);
  }
  out.ranks = std::move(ranks);
  return out;
}

}  // namespace laggard::core
