#include "daemon/core/judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

#include "daemon/core/change_point.h"

namespace laggard::core {
namespace {

struct RankMean {
  Rank rank = 0;
  double excess_ms = 0;
};

/// Some ranks, as those that are slow, and how far they are from the others.
struct Split {
  std::vector<Rank> ranks;  ///< ascending
  const RankGroup* group = nullptr;
  double within = 0;  ///< sum of squares that is left within the two parts
  double apart_ms = 0;

  /// The larger, the better these ranks explain how the means spread. What is left within the parts would
  /// not do as a measure: of many ranks, halves leave less of mere noise than one outlier and the others.
  double fit() const { return apart_ms > 0 ? apart_ms * apart_ms / (within + kTiny) : 0; }
  static constexpr double kTiny = 1e-9;  // for means that agree exactly
};

class SumOfMeans {
 public:
  void add(double value) {
    ++n_;
    sum_ += value;
    squares_ += value * value;
  }
  double within() const { return n_ == 0 ? 0 : std::max(squares_ - sum_ * sum_ / n_, 0.0); }
  double mean() const { return sum_ / n_; }
  SumOfMeans operator-(const SumOfMeans& part) const {
    SumOfMeans rest = *this;
    rest.n_ -= part.n_;
    rest.sum_ -= part.sum_;
    rest.squares_ -= part.squares_;
    return rest;
  }

 private:
  double n_ = 0, sum_ = 0, squares_ = 0;
};

bool contains(const std::vector<Rank>& ascending, Rank rank) {
  return std::binary_search(ascending.begin(), ascending.end(), rank);
}

}  // namespace

/// One judgement.
class Judge {
 public:
  Judge(const VerdictWindow& window, const Placement& placement)
      : window_(window), placement_(placement), begin_(window.judged_begin()), end_(window.rows_.end()) {}

  Verdict run() {
    sum_up();
    find_means();
    if (out_.steps < kVerdictSteps || means_.size() < 2) return std::move(out_);
    // More lost than the step takes: the own times cannot be parts of it.
    if (!(out_.lost_ms < out_.wall_ms)) return std::move(out_);
    add_culprits();
    if (out_.slowdown >= kBalanced || lately_slow()) name_somebody();
    if (!out_.held.has_value() || out_.held->slowdown < kBalanced) out_.kind = nobody();
    if (out_.kind != VerdictKind::one_rank && out_.kind != VerdictKind::several_ranks &&
        out_.kind != VerdictKind::one_group)
      out_.held.reset();
    add_what_if();
    return std::move(out_);
  }

 private:
  using Row = VerdictWindow::Row;
  using Iterator = VerdictWindow::Rows::const_iterator;

  template <typename Visit>
  static void each(Iterator begin, Iterator end, const Visit& visit) {
    for (auto row = begin; row != end; ++row) visit(row->second);
  }

  static double slowdown_of(double wall_ms, double lost_ms) {
    return wall_ms > lost_ms ? wall_ms / (wall_ms - lost_ms) : 1;
  }

  void sum_up() {
    double wall = 0, largest = 0, mean = 0, sync = 0, sync_skew = 0;
    std::size_t with_sync = 0;
    std::map<StageId, std::size_t> longest;
    each(begin_, end_, [&](const Row& row) {
      ++out_.steps;
      out_.partial_steps += row.partial ? 1 : 0;
      wall += row.wall_ms;
      largest += row.max_own_ms;
      mean += row.mean_own_ms;
      if (!is_valid(row.own->least_sync_ms)) return;
      ++with_sync;
      sync += row.own->least_sync_ms;
      // Who has less to do waits longer: that much of the difference is accounted for.
      const double own_skew = row.max_own_ms - row.min_own_ms;
      sync_skew += std::max(row.own->most_sync_ms - row.own->least_sync_ms - own_skew, 0.0);
      ++longest[row.own->longest_sync];
    });
    if (out_.steps == 0) return;
    const auto n = static_cast<double>(out_.steps);
    out_.from = begin_->first;
    out_.to = std::prev(end_)->first;
    out_.wall_ms = wall / n;
    out_.max_own_ms = largest / n;
    out_.mean_own_ms = mean / n;
    out_.lost_ms = out_.max_own_ms - out_.mean_own_ms;
    out_.slowdown = slowdown_of(out_.wall_ms, out_.lost_ms);
    out_.counted_twice = !(out_.max_own_ms <= (1 + kRounding) * out_.wall_ms);
    out_.tentative = out_.steps < kTentativeSteps;
    if (with_sync == 0) return;
    out_.least_sync_ms = sync / static_cast<double>(with_sync);
    sync_skew_ms_ = sync_skew / static_cast<double>(with_sync);
    out_.longest_sync = std::ranges::max_element(longest, {}, [](const auto& e) { return e.second; })->first;
  }

  void find_means() {
    std::vector<double> variances;
    for (const VerdictWindow::Sums& sums : window_.sums_) {
      if (sums.steps == 0) continue;
      const double mean = sums.excess / sums.steps;
      means_.push_back({sums.rank, mean});
      if (sums.steps > 1)
        variances.push_back(std::max(sums.squares - sums.excess * mean, 0.0) / (sums.steps - 1));
    }
    out_.ranks = static_cast<std::uint32_t>(means_.size());
    if (!variances.empty()) noise_ms_ = std::sqrt(Middle(variances).median());
    find_autocorrelation();
  }

  // The median over some ranks, evenly chosen.
  void find_autocorrelation() {
    constexpr std::size_t kSampled = 16;
    std::vector<double> found;
    const std::size_t stride = (means_.size() + kSampled - 1) / kSampled;
    for (std::size_t i = 0; i < means_.size(); i += stride)
      found.push_back(autocorrelation_of(series_of({means_[i].rank}, begin_, end_)));
    if (!found.empty()) autocorrelation_ = Middle(found).median();
  }

  static std::vector<double> series_of(const std::vector<Rank>& ranks, Iterator from, Iterator to) {
    std::vector<double> series;
    each(from, to, [&](const Row& row) {
      if (const auto excess = excess_in(row, ranks)) series.push_back(*excess);
    });
    return series;
  }

  void add_culprits() {
    std::unordered_map<Rank, std::uint64_t> steps;
    each(begin_, end_, [&](const Row& row) {
      if (row.culprit.has_value()) ++steps[*row.culprit];
    });
    for (const auto& [rank, n] : steps)
      out_.culprits.push_back(
          {rank, n, static_cast<double>(n) / static_cast<double>(out_.steps), mean_of(rank)});
    std::ranges::sort(out_.culprits, [](const CulpritShare& a, const CulpritShare& b) {
      return a.steps != b.steps ? a.steps > b.steps : a.rank < b.rank;
    });
    if (out_.culprits.size() > kCulpritsListed) out_.culprits.resize(kCulpritsListed);
  }

  double mean_of(Rank rank) const {
    const auto it = std::ranges::lower_bound(means_, rank, {}, &RankMean::rank);
    return it != means_.end() && it->rank == rank ? it->excess_ms : 0;
  }

  // Whether a rank stands out though the window as a whole is even: it has turned slow lately.
  bool lately_slow() const { return !out_.culprits.empty() && out_.culprits.front().share >= kNamedShare; }

  // ---- which ranks ----

  std::optional<Split> best_split() const {
    std::vector<RankMean> sorted = means_;
    std::ranges::sort(sorted, [](const RankMean& a, const RankMean& b) {
      return a.excess_ms != b.excess_ms ? a.excess_ms > b.excess_ms : a.rank < b.rank;
    });
    SumOfMeans all;
    for (const RankMean& mean : sorted) all.add(mean.excess_ms);
    std::optional<Split> best;
    std::size_t best_size = 0;
    SumOfMeans part;
    for (std::size_t i = 0; 2 * (i + 1) <= sorted.size(); ++i) {
      part.add(sorted[i].excess_ms);
      const SumOfMeans rest = all - part;
      const Split split{
          .ranks = {}, .within = part.within() + rest.within(), .apart_ms = part.mean() - rest.mean()};
      if (best.has_value() && split.fit() <= best->fit()) continue;
      best = split;
      best_size = i + 1;
    }
    if (!best.has_value()) return best;
    for (std::size_t i = 0; i < best_size; ++i) best->ranks.push_back(sorted[i].rank);
    std::ranges::sort(best->ranks);
    if (best_size > 1) prefer_group(*best, all);
    return best;
  }

  // A group that explains about as much says more than a list of ranks.
  void prefer_group(Split& best, const SumOfMeans& all) const {
    const double enough = best.fit() / kGroupFit;
    std::optional<Split> chosen;
    for (const RankGroup& group : placement_.groups()) {
      Split split{.ranks = {}, .group = &group};
      SumOfMeans part;
      for (const RankMean& mean : means_) {
        if (!contains(group.ranks, mean.rank)) continue;
        split.ranks.push_back(mean.rank);
        part.add(mean.excess_ms);
      }
      if (split.ranks.size() < 2 || 2 * split.ranks.size() > means_.size()) continue;
      const SumOfMeans rest = all - part;
      split.within = part.within() + rest.within();
      split.apart_ms = part.mean() - rest.mean();
      const bool same = split.ranks == best.ranks;
      if (!(split.apart_ms > 0) || (!same && split.fit() < enough)) continue;
      if (!chosen.has_value() || split.fit() > chosen->fit()) chosen = std::move(split);
    }
    if (chosen.has_value()) best = *std::move(chosen);
  }

  // ---- on what evidence ----

  /// Mean excess of the ranks in a row, over the others: of one over their median, of several over their
  /// mean. Nothing when none of them, or none of the others, is in the row.
  static std::optional<double> excess_in(const Row& row, const std::vector<Rank>& ranks) {
    double sum = 0;
    std::size_t present = 0, last = 0;
    each_of(row, ranks, [&](std::size_t i) {
      sum += row.own->own_ms[i];
      ++present;
      last = i;
    });
    const std::size_t all = row.own->ranks.size(), others = all - present;
    if (present == 0 || others == 0) return std::nullopt;
    if (ranks.size() == 1) return row.excess(last);
    const double rest = row.mean_own_ms * static_cast<double>(all) - sum;
    return sum / static_cast<double>(present) - rest / static_cast<double>(others);
  }

  /// The places in the row of those of the ranks that are in it.
  template <typename Visit>
  static void each_of(const Row& row, const std::vector<Rank>& ranks, const Visit& visit) {
    const std::vector<Rank>& all = row.own->ranks;
    auto at = all.begin();
    for (const Rank rank : ranks) {
      at = std::lower_bound(at, all.end(), rank);
      if (at == all.end()) return;
      if (*at == rank) visit(static_cast<std::size_t>(at - all.begin()));
    }
  }

  void name_somebody() {
    const auto split = best_split();
    if (!split.has_value() || !stands_apart(*split)) return;
    Held held{.ranks = split->ranks, .group = {}, .since = {}, .until = {}};
    Iterator from = begin_, to = end_;
    if (!find_since(held, from, to) || !is_evident(*split, from, to)) return;
    measure(held, from, to);
    if (!shares_enough(held)) return;
    if (split->group != nullptr)
      held.group = *split->group;
    else
      held.group = neighbours(held.ranks);
    if (held.ranks.size() == 1)
      out_.kind = VerdictKind::one_rank;
    else
      out_.kind = held.group.has_value() ? VerdictKind::one_group : VerdictKind::several_ranks;
    out_.tentative = held.steps < kTentativeSteps;
    out_.held = std::move(held);
  }

  bool stands_apart(const Split& split) const {
    if (!(split.apart_ms > 0)) return false;
    if (means_.size() < kEnoughToTellApart) return true;
    const double deviation = std::sqrt(split.within / static_cast<double>(means_.size() - 2));
    return split.apart_ms >= kNamedApart * deviation;
  }

  // Looks for the step since when, or until when, in all that is kept, and narrows the steps down to it.
  bool find_since(Held& held, Iterator& from, Iterator& to) const {
    std::vector<double> series;
    std::vector<Iterator> rows;
    for (auto row = window_.rows_.begin(); row != end_; ++row) {
      const auto excess = excess_in(row->second, held.ranks);
      if (!excess.has_value()) continue;
      series.push_back(*excess);
      rows.push_back(row);
    }
    const auto change = find_change(series);
    if (!change.has_value()) return !series.empty();
    const Iterator at = rows[change->at];
    if (2 * change->before < change->after) {
      held.since = at->first;
      if (at->first > from->first) from = at;
    } else if (change->after < change->before && change->after > kCulpritExcess * out_.wall_ms) {
      // Less slow than before and still slow: what it is now is what counts.
      if (at->first > from->first) from = at;
    } else if (2 * change->after < change->before) {
      if (at->first <= from->first) return false;
      held.until = at->first;
      to = at;
    }
    return true;
  }

  bool is_evident(const Split& split, Iterator from, Iterator to) const {
    const std::vector<double> series = series_of(split.ranks, from, to);
    const auto n = static_cast<double>(series.size());
    if (n < kVerdictSteps) return false;
    double wall = 0;
    each(from, to, [&](const Row& row) { wall += row.wall_ms; });
    const double mean = std::accumulate(series.begin(), series.end(), 0.0) / n;
    if (!(mean > kCulpritExcess * wall / static_cast<double>(std::distance(from, to)))) return false;
    double squares = 0;
    for (const double excess : series) squares += (excess - mean) * (excess - mean);
    // Ranks chosen for their high means have a high mean by choice: only for a group, which was there before,
    // is it steadier than that of one rank.
    const double of_mean = split.group == nullptr ? 1 : std::sqrt(static_cast<double>(split.ranks.size()));
    const double noise = std::max(std::sqrt(squares / (n - 1)), noise_ms_ / of_mean);
    const double r = series.size() < kFewSteps ? kAssumedCorrelation
                                               : std::max(autocorrelation_of(series), autocorrelation_);
    return mean >= kNamedSigmas * noise / std::sqrt(effective_size(n, r));
  }

  void measure(Held& held, Iterator from, Iterator to) const {
    struct Excess {
      double sum = 0;
      std::size_t n = 0;
    };
    std::map<StageId, Excess> by_stage;
    double excess = 0, lost = 0;
    std::uint64_t as_culprit = 0;
    each(from, to, [&](const Row& row) {
      const auto mine = excess_in(row, held.ranks);
      if (!mine.has_value()) return;
      ++held.steps;
      excess += *mine;
      held.wall_ms += row.wall_ms;
      lost += row.max_own_ms - row.mean_own_ms;
      as_culprit += row.culprit.has_value() && contains(held.ranks, *row.culprit) ? 1 : 0;
      each_of(row, held.ranks, [&](std::size_t i) {
        if (row.own->stage[i] == kNoStage) return;
        Excess& stage = by_stage[row.own->stage[i]];
        stage.sum += row.own->stage_excess_ms[i];
        ++stage.n;
      });
    });
    const auto n = static_cast<double>(held.steps);
    held.excess_ms = excess / n;
    held.wall_ms /= n;
    held.slowdown = slowdown_of(held.wall_ms, lost / n);
    held.share = static_cast<double>(as_culprit) / n;
    const auto most = std::ranges::max_element(by_stage, {}, [](const auto& e) { return e.second.sum; });
    if (most == by_stage.end() || most->second.sum <= 0) return;
    held.stage = most->first;
    held.stage_excess_ms = most->second.sum / static_cast<double>(most->second.n);
  }

  bool shares_enough(const Held& held) const {
    if (held.ranks.size() > 1) return held.share >= kNamedShareOfGroup;
    double next = 0;  // over the whole window, which is more than fair to the others
    for (const CulpritShare& culprit : out_.culprits)
      if (culprit.rank != held.ranks.front()) next = std::max(next, culprit.share);
    return held.share >= kNamedShare && (held.share > kNamedShareOfGroup || held.share >= kNamedLead * next);
  }

  static std::optional<RankGroup> neighbours(const std::vector<Rank>& ranks) {
    if (ranks.size() < kNeighbours || ranks.back() - ranks.front() + 1 != ranks.size()) return std::nullopt;
    return RankGroup{"ranks", std::to_string(ranks.front()) + "-" + std::to_string(ranks.back()), ranks};
  }

  // ---- nobody ----

  VerdictKind nobody() const {
    if (out_.slowdown >= kBalanced) return VerdictKind::rotating;
    if (!is_valid(out_.least_sync_ms)) return VerdictKind::balanced;
    const bool hides = out_.least_sync_ms >= kHidingSync * out_.wall_ms ||
                       slowdown_of(out_.wall_ms, sync_skew_ms_) >= kBalanced;
    return hides ? VerdictKind::inside_sync : VerdictKind::balanced;
  }

  // ---- what if ----

  void add_what_if() {
    std::map<StageId, double> by_stage;
    each(begin_, end_, [&](const Row& row) {
      for (const OwnTimes::Recoverable& stage : row.own->recoverable) by_stage[stage.stage] += stage.ms;
    });
    const auto n = static_cast<double>(out_.steps);
    for (const auto& [stage, sum] : by_stage)
      out_.what_if.push_back({.of = WhatIf::Of::stage,
                              .stage = stage,
                              .key = {},
                              .value = {},
                              .wall_ms = out_.wall_ms - sum / n});
    for (const CulpritShare& culprit : out_.culprits)
      out_.what_if.push_back({.of = WhatIf::Of::rank,
                              .rank = culprit.rank,
                              .key = {},
                              .value = {},
                              .wall_ms = without(culprit.rank)});
    if (out_.held.has_value()) add_groups(*out_.held);
    std::erase_if(out_.what_if, [&](const WhatIf& what) {
      return out_.wall_ms - what.wall_ms < kWorthListing * out_.wall_ms;
    });
    std::ranges::stable_sort(out_.what_if, {}, &WhatIf::wall_ms);
    if (out_.what_if.size() > kWhatIfListed) out_.what_if.resize(kWhatIfListed);
  }

  void add_groups(const Held& held) {
    const auto add = [&](const RankGroup& group) {
      out_.what_if.push_back(
          {.of = WhatIf::Of::group, .key = group.key, .value = group.value, .wall_ms = without(group.ranks)});
    };
    for (const RankGroup& group : placement_.groups())
      if (group.ranks.size() < means_.size() && std::ranges::includes(group.ranks, held.ranks)) add(group);
    if (held.group.has_value() && held.group->key == "ranks") add(*held.group);
  }

  double without(Rank rank) const {
    double gain = 0;
    each(begin_, end_, [&](const Row& row) {
      if (row.max_rank == rank) gain += row.max_own_ms - row.second_own_ms;
    });
    return out_.wall_ms - gain / static_cast<double>(out_.steps);
  }

  // The mean step if the largest own time were that of the other ranks.
  double without(const std::vector<Rank>& ranks) const {
    double gain = 0;
    each(begin_, end_, [&](const Row& row) {
      double largest = 0;
      for (std::size_t i = 0; i < row.own->ranks.size(); ++i)
        if (row.own->own_ms[i] > largest && !contains(ranks, row.own->ranks[i])) largest = row.own->own_ms[i];
      if (largest > 0) gain += row.max_own_ms - largest;  // else nobody else is there to compare with
    });
    return out_.wall_ms - gain / static_cast<double>(out_.steps);
  }

  const VerdictWindow& window_;
  const Placement& placement_;
  Iterator begin_, end_;
  std::vector<RankMean> means_;  // by rank
  double noise_ms_ = 0;          // of a rank's excess from step to step
  double autocorrelation_ = 0;   // of it
  double sync_skew_ms_ = 0;
  Verdict out_;
};

Verdict VerdictWindow::judge(const Placement& placement) const {
  if (stale_) rebuild();
  return Judge(*this, placement).run();
}

}  // namespace laggard::core
