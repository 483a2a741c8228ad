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

/// The own time of each record, kAbsent where it is not known: no stage was measured, or a value is missing
/// that it would have to contain.
std::vector<double> sum_own(const StageTimes& times, const StageTable& stages) {
  struct OwnSum {
    double own_ms = 0;
    bool measured = false, known = true;
  };
  std::vector<OwnSum> sums(times.inclusive.records());
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const bool counts = stages[stage].kind != StageKind::sync;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double time = times.inclusive.at(stage, i);
      if (state_of(time) == ValueState::absent) continue;
      sums[i].measured = true;
      sums[i].known = sums[i].known && is_valid(time);
      if (counts) sums[i].own_ms += times.exclusive.at(stage, i);
    }
  }
  std::vector<double> own;
  own.reserve(sums.size());
  for (const OwnSum& sum : sums)
    own.push_back(sum.measured && sum.known ? std::max(sum.own_ms, 0.0) : kAbsent);
  return own;
}

std::optional<Culprit> find_culprit(std::span<const RecordView> records, const StageTimes& times,
                                    const StageTable& stages, const Spread& own, double wall_ms) {
  if (own.present < 2 || !is_valid(wall_ms)) return std::nullopt;
  Culprit culprit{.rank = own.max_rank, .own_excess_ms = own.max - own.median};
  if (!(culprit.own_excess_ms > kCulpritExcess * wall_ms)) return std::nullopt;

  std::vector<double> others;
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].kind == StageKind::sync) continue;
    std::optional<double> mine;
    others.clear();
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!is_valid(times.inclusive.at(stage, i))) continue;
      const double time = times.exclusive.at(stage, i);
      if (state_of(time) == ValueState::null) continue;
      if (records[i].rank == culprit.rank)
        mine = time;
      else
        others.push_back(time);
    }
    if (!mine.has_value()) continue;
    const double excess = others.empty() ? *mine : *mine - Middle(others).median();
    if (culprit.stage == kNoStage || excess > culprit.stage_excess_ms) {
      culprit.stage = stage;
      culprit.stage_excess_ms = excess;
    }
  }
  return culprit;
}

/// Fills in what concerns single stages of the ranks in `columns`, whose own times are known.
class StageScan {
 public:
  StageScan(OwnTimes& out, std::span<const std::size_t> columns, const StageTimes& times,
            const StageTable& stages)
      : out_(out), columns_(columns), times_(times), stages_(stages), sync_(columns.size(), kAbsent) {
    out_.stage.assign(columns.size(), kNoStage);
    out_.stage_excess_ms.assign(columns.size(), 0);
    largest_own_ = *std::ranges::max_element(out_.own_ms);
  }

  void run() {
    for (StageId stage = 0; stage < stages_.size(); ++stage) {
      valid_.clear();
      for (const std::size_t column : columns_)
        if (is_measured(stage, column)) valid_.push_back(times_.exclusive.at(stage, column));
      if (valid_.empty()) continue;
      const Middle middle(valid_);
      if (stages_[stage].kind == StageKind::sync)
        add_sync(stage, middle.median());
      else
        add_own(stage, middle);
    }
    for (const double sync : sync_) {
      if (!is_valid(sync)) continue;
      if (!(out_.least_sync_ms <= sync)) out_.least_sync_ms = sync;
      if (!(out_.most_sync_ms >= sync)) out_.most_sync_ms = sync;
    }
  }

 private:
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
      double own = out_.own_ms[i];
      if (is_measured(stage, columns_[i])) {
        const double time = times_.exclusive.at(stage, columns_[i]);
        own -= time - middle.median();
        // All of it, where no other rank has the stage.
        const double excess = valid_.size() == 1 ? time : time - middle.median_without(time);
        if (out_.stage[i] == kNoStage || excess > out_.stage_excess_ms[i]) {
          out_.stage[i] = stage;
          out_.stage_excess_ms[i] = single(excess);
        }
      }
      largest = std::max(largest, own);
    }
    out_.recoverable.push_back({stage, single(largest_own_ - largest)});
  }

  OwnTimes& out_;
  std::span<const std::size_t> columns_;
  const StageTimes& times_;
  const StageTable& stages_;
  std::vector<double> sync_;  // of each column, over all sync stages
  std::vector<double> valid_;
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
    out.culprit = find_culprit(records, times, stages, out.own, wall_ms);
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!is_valid(own[i])) continue;
      columns.push_back(i);
      ranks->ranks.push_back(records[i].rank);
      ranks->own_ms.push_back(single(own[i]));
    }
    StageScan(*ranks, columns, times, stages).run();
  }
  out.ranks = std::move(ranks);
  return out;
}

}  // namespace laggard::core
