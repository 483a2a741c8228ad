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

/// What the stages of a record add up to.
struct StageSum {
  double own_ms = 0, sync_ms = 0;
  bool measured = false, waits = false, own_known = true, sync_known = true;

  /// kAbsent where no stage was measured, kNull where a value is missing that it would have to contain. What
  /// a sync stage took is in it only where it has to be taken off a parent's time.
  double own() const { return !measured ? kAbsent : own_known ? std::max(own_ms, 0.0) : kNull; }
  /// What is left of a wall, below 0 where stages overlap; kAbsent where that is not known. A rank that waits
  /// for the others cannot be done sooner than they: a shorter wall lacks what it did between the steps.
  double outside_of(double wall_ms, double usual_wall_ms) const {
    const bool known = measured && own_known && sync_known && is_valid(wall_ms);
    return known ? (waits ? std::max(wall_ms, usual_wall_ms) : wall_ms) - own_ms - sync_ms : kAbsent;
  }
};

std::vector<StageSum> sum_stages(const StageTimes& times, const StageTable& stages) {
  std::vector<StageSum> sums(times.inclusive.records());
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const bool is_own = stages[stage].kind != StageKind::sync;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double time = times.inclusive.at(stage, i), exclusive = times.exclusive.at(stage, i);
      if (state_of(time) == ValueState::absent) continue;
      StageSum& sum = sums[i];
      sum.measured = true;
      sum.waits = sum.waits || !is_own;
      bool& known = is_own ? sum.own_known : sum.sync_known;
      known = known && is_valid(time) && state_of(exclusive) != ValueState::null;
      (is_own ? sum.own_ms : sum.sync_ms) += exclusive;
    }
  }
  return sums;
}

/// OwnTimes::more_covered_ms.
float more_covered(std::span<const StageSum> sums, const Spread& own) {
  std::vector<double> covered;
  double of_largest = kAbsent;
  for (const StageSum& sum : sums) {
    if (!sum.measured || !sum.own_known || !sum.sync_known) continue;
    covered.push_back(sum.own_ms + sum.sync_ms);
    if (!is_valid(of_largest) && sum.own() == own.max) of_largest = covered.back();
  }
  if (!is_valid(of_largest) || covered.size() < 2) return 0;
  return single(of_largest - Middle(covered).median_without(of_largest));
}

/// Where a stage is timed on the host alone, and no part of it nor what it is a part of is timed otherwise,
/// its time is none that is compared: what it covers is not known.
class HostOnly {
 public:
  HostOnly(const StageTimes& times, const StageTimes& host, const StageTable& stages)
      : times_(times), host_(host), stages_(stages) {}

  bool any(std::size_t record) const {
    for (StageId stage = 0; stage < stages_.size(); ++stage)
      if (is_valid(host_.inclusive.at(stage, record)) && !is_timed(stage, record) && !has_kin(stage, record))
        return true;
    return false;
  }

 private:
  bool is_timed(StageId stage, std::size_t record) const {
    return state_of(times_.inclusive.at(stage, record)) != ValueState::absent;
  }
  bool is_part(StageId stage, StageId of) const {
    while (stage != kNoStage && stage != of) stage = stages_[stage].parent;
    return stage == of;
  }
  bool has_kin(StageId stage, std::size_t record) const {
    for (StageId other = 0; other < stages_.size(); ++other)
      if (is_timed(other, record) && (is_part(stage, other) || is_part(other, stage))) return true;
    return false;
  }

  const StageTimes& times_;
  const StageTimes& host_;
  const StageTable& stages_;
};

double usual_wall(std::span<const RecordView> records) {
  std::vector<double> walls;
  walls.reserve(records.size());
  for (const RecordView& record : records)
    if (is_valid(record.wall_ms())) walls.push_back(record.wall_ms());
  return walls.empty() ? kAbsent : Middle(walls).median();
}

/// What the stages of each rank leave of the step, where it is clearly more than on the usual rank. Nothing
/// where stages overlap, as sums above the wall show, or where so many stand out that there is no usual rank.
std::vector<OwnTimes::Outside> find_outside(std::span<const StageSum> sums, const HostOnly& host_only,
                                            std::span<const RecordView> records, double wall_ms) {
  constexpr std::size_t kAmong = 3;  // one of so many at most
  std::vector<double> outside(sums.size(), kAbsent), valid;
  const double usual_wall_ms = usual_wall(records);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double left = sums[i].outside_of(records[i].wall_ms(), usual_wall_ms);
    if (state_of(left) == ValueState::absent || host_only.any(i)) continue;
    if (left < -kCulpritExcess * wall_ms) return {};
    outside[i] = std::max(left, 0.0);
    valid.push_back(outside[i]);
  }
  std::vector<OwnTimes::Outside> found;
  if (valid.size() < kAmong || !is_valid(wall_ms)) return found;
  const double usual = Middle(valid).median();
  for (std::size_t i = 0; i < outside.size(); ++i)
    if (is_valid(outside[i]) && outside[i] - usual > kWorthTelling * wall_ms)
      found.push_back({records[i].rank, single(outside[i] - usual)});
  if (kAmong * found.size() > valid.size()) found.clear();
  found.shrink_to_fit();
  return found;
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
        most_(columns.size()),
        extra_(columns.size()) {
    largest_own_ = *std::ranges::max_element(out_.own_ms);
  }

  void run() {
    for (StageId stage = 0; stage < stages_.size(); ++stage) {
      values_.clear();
      for (const std::size_t column : columns_)
        if (is_measured(stage, column)) values_.push_back(times_.exclusive.at(stage, column));
      if (values_.empty()) continue;
      if (stages_[stage].kind == StageKind::sync)
        add_sync(stage, Middle(values_).median());
      else
        add_own(stage);
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
                   .stage = most_[at].stage,
                   .stage_excess_ms = most_[at].excess_ms};
  }

 private:
  struct Most {
    StageId stage = kNoStage;
    double excess_ms = 0;
    void offer(StageId other, double excess) {
      if (stage == kNoStage || excess > excess_ms) *this = {other, excess};
    }
  };

  // A stage is compared among the ranks that have it. Where that explains little, it may be that only slow
  // ranks have one, or another one in its place: what they do there beyond the others is then no more than
  // their own time is.
  void add_excess() {
    std::vector<double> own(out_.own_ms.begin(), out_.own_ms.end());
    const Middle middle(own);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const double mine = out_.own_ms[i];
      const double all = columns_.size() == 1 ? mine : std::max(mine - middle.median_without(mine), 0.0);
      if (2 * most_[i].excess_ms < all && extra_[i].excess_ms > most_[i].excess_ms) most_[i] = extra_[i];
      out_.stage.push_back(most_[i].stage);
      out_.stage_excess_ms.push_back(single(std::min(most_[i].excess_ms, all)));
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

  // With the values of the ranks that have it in values_.
  void add_own(StageId stage) {
    const std::size_t have = values_.size(), all = columns_.size();
    const Middle among_them(values_);
    values_.resize(all, 0);
    const Middle among_all(values_);
    const double usual = 2 * have < all ? 0 : among_them.median();  // on the usual rank
    double largest = 0;
    for (std::size_t i = 0; i < all; ++i) {
      double own = out_.own_ms[i];
      if (is_measured(stage, columns_[i])) {
        const double time = times_.exclusive.at(stage, columns_[i]);
        own -= time - usual;
        most_[i].offer(stage, have == 1 ? time : time - among_them.median_without(time));
        if (have < all && have > 1) extra_[i].offer(stage, time - among_all.median_without(time));
      }
      largest = std::max(largest, own);
    }
    out_.recoverable.push_back({stage, single(largest_own_ - largest)});
  }

  OwnTimes& out_;
  std::span<const std::size_t> columns_;
  const StageTimes& times_;
  const StageTable& stages_;
  // Of each column: time in all sync stages, and the stages with the largest excess.
  std::vector<double> sync_;
  std::vector<Most> most_, extra_;
  std::vector<double> values_;
  double largest_own_ = 0, longest_sync_ms_ = 0;
};

}  // namespace

OwnTimesOfStep measure_own(std::span<const RecordView> records, const StageTimes& stream,
                           const StageTimes& host, const StageTable& stages, double wall_ms) {
  OwnTimesOfStep out{.clock = any_valid(stream.inclusive, stages) ? Clock::stream : Clock::host};
  const StageTimes times = out.clock == Clock::stream ? times_compared(stream, host, stages) : host;
  const std::vector<StageSum> sums = sum_stages(times, stages);
  std::vector<double> own, valid;
  own.reserve(sums.size());
  for (const StageSum& sum : sums) own.push_back(sum.own());
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
    ranks->more_covered_ms = more_covered(sums, out.own);
    ranks->outside = find_outside(sums, HostOnly(times, host, stages), records, wall_ms);
    StageScan scan(*ranks, columns, times, stages);
    scan.run();
    out.culprit = scan.culprit(out.own, wall_ms);
  }
  out.ranks = std::move(ranks);
  return out;
}

}  // namespace laggard::core
