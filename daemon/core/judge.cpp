#include "daemon/core/judge.h"

#include <cmath>
#include <set>

#include "daemon/core/change_point.h"
#include "daemon/core/evidence.h"
#include "daemon/core/split.h"
#include "daemon/core/what_if.h"

namespace laggard::core {
namespace {

double ratio_of(double wall_ms, double lost_ms) {
  return wall_ms > lost_ms ? wall_ms / (wall_ms - lost_ms) : 1;
}

/// One judgement.
class Judge {
 public:
  using Rows = OwnRows::const_iterator;
  using Sums = std::vector<VerdictWindow::Sums>;

  Judge(const OwnRows& rows, Rows begin, const Sums& sums, const Placement& placement)
      : rows_(rows), groups_(placement.groups()), sums_(sums), begin_(begin), end_(rows.end()) {}

  Verdict run(const Placement& placement) {
    sum_up();
    find_means();
    if (out_.steps < kVerdictSteps || means_.size() < 2) return std::move(out_);
    // More lost than the step takes: the own times cannot be parts of it.
    if (!(out_.lost_ms < out_.wall_ms)) return std::move(out_);
    add_culprits();
    if (!name_somebody()) out_.kind = nobody();
    out_.what_if = what_if(rows_, begin_, out_, placement);
    return std::move(out_);
  }

 private:
  template <typename Visit>
  static void each(Rows begin, Rows end, const Visit& visit) {
    for (auto row = begin; row != end; ++row) visit(row->second);
  }

  void sum_up() {
    double wall = 0, largest = 0, mean = 0, sync = 0, sync_skew = 0;
    std::size_t with_sync = 0;
    std::map<StageId, std::size_t> longest;
    each(begin_, end_, [&](const OwnRow& row) {
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
    out_.slowdown = ratio_of(out_.wall_ms, out_.lost_ms);
    out_.counted_twice = !(out_.max_own_ms <= (1 + kRounding) * out_.wall_ms);
    out_.tentative = out_.steps < kTentativeSteps;
    if (with_sync == 0) return;
    out_.least_sync_ms = sync / static_cast<double>(with_sync);
    sync_skew_ms_ = sync_skew / static_cast<double>(with_sync);
    out_.longest_sync = std::ranges::max_element(longest, {}, [](const auto& e) { return e.second; })->first;
  }

  void find_means() {
    std::vector<double> variances;
    for (const VerdictWindow::Sums& sums : sums_) {
      if (sums.steps == 0) continue;
      const double mean = sums.bounded / sums.steps;
      means_.push_back({sums.rank, mean});
      if (sums.steps > 1)
        variances.push_back(std::max(sums.bounded_squares - sums.bounded * mean, 0.0) / (sums.steps - 1));
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
    if (found.empty() || out_.steps == 0) return;
    const double r = Middle(found).median();
    // Few ranks are few guesses at it: it may as well be larger by its standard error.
    const double error = found.size() < kEnoughToKnowNoise
                             ? std::sqrt(std::max(1 - r * r, 0.0) / static_cast<double>(out_.steps))
                             : 0;
    autocorrelation_ = r + error;
  }

  static std::vector<double> series_of(const std::vector<Rank>& ranks, Rows from, Rows to) {
    std::vector<double> series;
    each(from, to, [&](const OwnRow& row) {
      if (const auto excess = row.excess_of(ranks)) series.push_back(*excess);
    });
    return series;
  }

  void add_culprits() {
    std::map<Rank, std::size_t> steps;
    each(begin_, end_, [&](const OwnRow& row) {
      if (row.culprit.has_value()) ++steps[*row.culprit];
    });
    for (const auto& [rank, n] : steps) {
      culprits_.push_back({rank, n});
      out_.culprits.push_back(
          {rank, n, static_cast<double>(n) / static_cast<double>(out_.steps), mean_excess_of(rank)});
    }
    std::ranges::sort(out_.culprits, [](const CulpritShare& a, const CulpritShare& b) {
      return a.steps != b.steps ? a.steps > b.steps : a.rank < b.rank;
    });
    if (out_.culprits.size() > kCulpritsListed) out_.culprits.resize(kCulpritsListed);
  }

  double mean_excess_of(Rank rank) const {
    const auto it = std::ranges::lower_bound(sums_, rank, {}, &VerdictWindow::Sums::rank);
    return it != sums_.end() && it->rank == rank && it->steps > 0 ? it->excess / it->steps : 0;
  }

  // ---- somebody ----

  bool name_somebody() {
    // A rank that has turned slow lately stands out though the window as a whole is even.
    const bool lately = !out_.culprits.empty() && out_.culprits.front().share >= kNamedShare;
    if (out_.slowdown < kBalanced && !lately) return false;
    std::set<Rank> looked_at;
    for (std::size_t choice = 0; choice < kChoices; ++choice) {
      auto split = best_split(means_, looked_at, groups_);
      if (!split.has_value() || !split->stands_apart()) break;
      looked_at.insert(split->ranks.begin(), split->ranks.end());
      narrow(*split);
      // Ranks chosen for their high means have a high mean by choice: only for a group, which was there
      // before, is it steadier than that of one rank.
      const double members = split->group == nullptr ? 1 : static_cast<double>(split->ranks.size());
      if (accuse(*split, noise_ms_ / std::sqrt(members))) return true;
    }
    // Where ranks differ by degrees, as pipeline stages do, none is far apart from the next.
    const auto split =
        most_culprits(culprits_, kNamedShareAlone * static_cast<double>(out_.steps), means_, groups_);
    return split.has_value() && accuse(*split, noise_ms_);
  }

  // Leaves out those who are slow too, but not as slow as the ones that the others wait for.
  void narrow(Split& split) const {
    double most = 0;
    for (const Rank rank : split.ranks) most = std::max(most, mean_of(rank));
    const double error =
        noise_ms_ / std::sqrt(effective_size(static_cast<double>(out_.steps), autocorrelation_));
    const double enough = (1 - kHoldsWithin) * most - kHoldsWithinErrors * error;
    std::vector<Rank> left;
    for (const Rank rank : split.ranks)
      if (mean_of(rank) >= enough) left.push_back(rank);
    const bool still_the_group = split.group != nullptr && 2 * left.size() > split.ranks.size();
    if (left.size() == split.ranks.size() || still_the_group) return;
    split.group = group_of(left, means_, groups_);
    split.ranks = std::move(left);
  }

  double mean_of(Rank rank) const {
    return std::ranges::lower_bound(means_, rank, {}, &RankMean::rank)->excess_ms;
  }

  // Names the ranks when there is evidence. `noise_ms` is that of their excess from step to step at least.
  bool accuse(const Split& split, double noise_ms) {
    Held held{.ranks = split.ranks, .group = {}, .since = {}, .until = {}};
    Rows from = begin_, to = end_;
    if (!find_since(held, from, to)) return false;
    const std::vector<double> series = series_of(split.ranks, from, to);
    if (series.size() < kVerdictSteps) return false;
    if (!is_evident(series, kCulpritExcess * usual_wall(from, to), kNamedSigmas, noise_ms, autocorrelation_))
      return false;
    measure(held, from, to);
    if (held.slowdown < kBalanced || !shares_enough(held)) return false;
    held.group = split.group != nullptr ? std::optional(*split.group) : neighbours(held.ranks);
    if (held.ranks.size() == 1)
      out_.kind = VerdictKind::one_rank;
    else
      out_.kind = held.group.has_value() ? VerdictKind::one_group : VerdictKind::several_ranks;
    out_.tentative = series.size() < kTentativeSteps;
    out_.held = std::move(held);
    return true;
  }

  // Looks for the step since when, or until when, in all that is kept, and narrows the steps down to it.
  bool find_since(Held& held, Rows& from, Rows& to) const {
    std::vector<double> series;
    std::vector<Rows> rows;
    for (auto row = rows_.begin(); row != end_; ++row) {
      const auto excess = row->second.excess_of(held.ranks);
      if (!excess.has_value()) continue;
      series.push_back(*excess);
      rows.push_back(row);
    }
    if (series.empty()) return false;
    const auto judged =
        std::ranges::lower_bound(rows, begin_->first, {}, [](Rows row) { return row->first; });
    const auto episode = find_episode(series, static_cast<std::size_t>(judged - rows.begin()));
    if (episode.has_value() && episode->inside > 2 * episode->outside) {
      held.since = rows[episode->begin]->first;
      held.until = rows[episode->end]->first;
      if (*held.since > from->first) from = rows[episode->begin];
      to = rows[episode->end];
      return to != from;
    }
    const auto change = find_change(series);
    if (!change.has_value()) return true;
    const Rows at = rows[change->at];
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

  static double usual_wall(Rows from, Rows to) {
    std::vector<double> walls;
    each(from, to, [&](const OwnRow& row) { walls.push_back(row.wall_ms); });
    return Middle(walls).median();
  }

  void measure(Held& held, Rows from, Rows to) const {
    std::map<StageId, double> by_stage;
    double excess = 0, lost = 0, present = 0, present_ranks = 0, as_culprit = 0;
    each(from, to, [&](const OwnRow& row) {
      ++held.steps;
      held.wall_ms += row.wall_ms;
      lost += row.max_own_ms - row.mean_own_ms;
      as_culprit += row.culprit.has_value() && std::ranges::binary_search(held.ranks, *row.culprit) ? 1 : 0;
      const auto mine = row.excess_of(held.ranks);
      if (!mine.has_value()) return;
      ++present;
      excess += *mine;
      row.each_of(held.ranks, [&](std::size_t i) {
        ++present_ranks;
        if (row.own->stage[i] != kNoStage) by_stage[row.own->stage[i]] += row.own->stage_excess_ms[i];
      });
    });
    const auto n = static_cast<double>(held.steps);
    held.excess_ms = excess / present;
    held.wall_ms /= n;
    held.slowdown = ratio_of(held.wall_ms, lost / n);
    held.share = as_culprit / n;
    const auto most = std::ranges::max_element(by_stage, {}, [](const auto& e) { return e.second; });
    if (most == by_stage.end() || most->second <= 0) return;
    held.stage = most->first;
    held.stage_excess_ms = most->second / present_ranks;
  }

  bool shares_enough(const Held& held) const {
    if (held.ranks.size() > 1) return held.share >= kNamedShareOfGroup;
    double next = 0;  // over the whole window, which is more than fair to the others
    for (const CulpritShare& culprit : out_.culprits)
      if (culprit.rank != held.ranks.front()) next = std::max(next, culprit.share);
    return held.share >= kNamedShare && (held.share > kNamedShareOfGroup || held.share >= kNamedLead * next);
  }

  // ---- nobody ----

  VerdictKind nobody() const {
    const bool unaccounted = ratio_of(out_.wall_ms, sync_skew_ms_) >= kBalanced;
    if (out_.slowdown >= kBalanced)
      return unaccounted && sync_skew_ms_ >= out_.lost_ms ? VerdictKind::inside_sync : VerdictKind::rotating;
    const bool hides = is_valid(out_.least_sync_ms) && out_.least_sync_ms >= kHidingSync * out_.wall_ms;
    return hides || unaccounted ? VerdictKind::inside_sync : VerdictKind::balanced;
  }

  const OwnRows& rows_;
  const std::vector<RankGroup>& groups_;
  const Sums& sums_;
  Rows begin_, end_;                    // the judged ones
  std::vector<RankMean> means_;         // by rank
  std::vector<CulpritCount> culprits_;  // by rank
  double noise_ms_ = 0;                 // of a rank's excess from step to step
  double autocorrelation_ = 0;          // of it
  double sync_skew_ms_ = 0;
  Verdict out_;
};

}  // namespace

Verdict judge(const OwnRows& rows, OwnRows::const_iterator begin,
              const std::vector<VerdictWindow::Sums>& sums, const Placement& placement) {
  return Judge(rows, begin, sums, placement).run(placement);
}

}  // namespace laggard::core
