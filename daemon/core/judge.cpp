#include "daemon/core/judge.h"

#include <cmath>
#include <set>

#include "daemon/core/change_point.h"
#include "daemon/core/evidence.h"
#include "daemon/core/outside.h"
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

  Judge(const OwnRows& rows, Rows begin, std::size_t recent, const Sums& sums, const Placement& placement)
      : rows_(rows),
        groups_(placement.groups()),
        sums_(sums),
        begin_(begin),
        end_(rows.end()),
        after_gone_(begin),
        recent_(recent) {
    find_here();
  }

  Verdict run(const Placement& placement) {
    sum_up();
    if (!out_.counted_twice) out_.outside = find_outside(rows_, begin_, recent_, sums_);
    find_means();
    if (out_.steps < kVerdictSteps || means_.size() < 2) return std::move(out_);
    if (!std::isfinite(out_.wall_ms) || !(out_.wall_ms > 0)) return std::move(out_);
    // More lost than the step takes: the own times cannot be parts of it.
    if (!(out_.lost_ms < out_.wall_ms)) return std::move(out_);
    add_culprits();
    if (!name_somebody()) out_.kind = nobody();
    if (out_.kind == VerdictKind::unknown) return std::move(out_);
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
    std::map<Rank, std::uint64_t> unknown;
    each(begin_, end_, [&](const OwnRow& row) {
      ++out_.steps;
      for (const Rank rank : row.own->unknown) ++unknown[rank];
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
    for (const auto& [rank, steps] : unknown)
      if (2 * steps >= out_.steps) out_.unjudged.push_back(rank);
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

  // Who is there now: the others hold nobody back any more.
  void find_here() {
    here_.assign(sums_.size(), false);
    const auto newest = std::min<std::ptrdiff_t>(kHereWithin, std::distance(begin_, end_));
    each(std::prev(end_, newest), end_, [&](const OwnRow& row) {
      each_place(row, [&](std::size_t, std::size_t place) { here_[place] = true; });
    });
  }

  // Visits the ranks of a judged row: their places in the row and in sums_.
  template <typename Visit>
  void each_place(const OwnRow& row, const Visit& visit) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < row.own->ranks.size(); ++i) {
      while (sums_[place].rank < row.own->ranks[i]) ++place;
      visit(i, place);
    }
  }

  void find_means() {
    std::vector<double> variances;
    for (std::size_t place = 0; place < sums_.size(); ++place) {
      const VerdictWindow::Sums& sums = sums_[place];
      if (sums.steps == 0) continue;
      ++out_.ranks;
      const double mean = sums.bounded / sums.steps;
      if (here_[place]) means_.push_back({sums.rank, mean});
      if (sums.steps > 1)
        variances.push_back(std::max(sums.bounded_squares - sums.bounded * mean, 0.0) / (sums.steps - 1));
    }
    if (!variances.empty()) noise_ms_ = std::sqrt(Middle(variances).median());
    find_autocorrelation();
  }

  std::vector<RankMean> means_since(Rows from) const {
    std::vector<std::pair<double, std::size_t>> sums(sums_.size());
    each(from, end_, [&](const OwnRow& row) {
      each_place(row, [&](std::size_t i, std::size_t place) {
        sums[place].first += row.bounded_excess(i);
        ++sums[place].second;
      });
    });
    std::vector<RankMean> means;
    for (std::size_t place = 0; place < sums.size(); ++place)
      if (here_[place] && sums[place].second > 0)
        means.push_back({sums_[place].rank, sums[place].first / static_cast<double>(sums[place].second)});
    return means;
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
    struct AsCulprit {
      std::size_t steps = 0;
      Step last = 0;
      std::map<StageId, double> excess_ms;
    };
    std::map<Rank, AsCulprit> found;
    after_gone_ = begin_;
    for (auto row = begin_; row != end_; ++row) {
      if (!row->second.culprit.has_value()) continue;
      AsCulprit& culprit = found[*row->second.culprit];
      ++culprit.steps;
      culprit.last = row->first;
      row->second.each_of({*row->second.culprit}, [&](std::size_t i) {
        culprit.excess_ms[row->second.own->stage[i]] += row->second.own->stage_excess_ms[i];
      });
      if (!is_here(*row->second.culprit)) after_gone_ = std::next(row);
    }
    for (const auto& [rank, culprit] : found) {
      const auto n = static_cast<double>(culprit.steps);
      if (is_here(rank)) culprits_.push_back({rank, culprit.steps});
      out_.culprits.push_back({.rank = rank,
                               .steps = culprit.steps,
                               .share = n / static_cast<double>(out_.steps),
                               .mean_excess_ms = mean_excess_of(rank),
                               .stage = most_of(culprit.excess_ms),
                               .gone_after = is_here(rank) ? std::nullopt : std::optional(culprit.last)});
    }
    std::ranges::sort(out_.culprits, [](const CulpritShare& a, const CulpritShare& b) {
      return a.steps != b.steps ? a.steps > b.steps : a.rank < b.rank;
    });
    if (out_.culprits.size() > kCulpritsListed) out_.culprits.resize(kCulpritsListed);
  }

  // The stage that has most; kNoStage when none has anything.
  static StageId most_of(const std::map<StageId, double>& by_stage) {
    const auto most = std::ranges::max_element(by_stage, {}, [](const auto& e) { return e.second; });
    return most == by_stage.end() || most->second <= 0 ? kNoStage : most->first;
  }

  bool is_here(Rank rank) const {
    const auto it = std::ranges::lower_bound(sums_, rank, {}, &VerdictWindow::Sums::rank);
    return it != sums_.end() && it->rank == rank && here_[static_cast<std::size_t>(it - sums_.begin())];
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
    std::optional<Held> found;
    const auto is_found = [&] { return found.has_value() && !found->until.has_value(); };
    for (std::size_t recent = recent_; recent > 0 && recent < out_.steps && !is_found();
         recent *= kMoreRecent) {
      const Rows from = std::prev(end_, static_cast<std::ptrdiff_t>(recent));
      // Who was slow before these steps is not chosen by what they did in them.
      if (auto now = choose(means_since(from), from); now.has_value() && !now->until.has_value())
        found = std::move(now);
    }
    if (!is_found()) prefer(found, choose(means_, begin_));
    if (!is_found()) {
      // Where ranks differ by degrees, as pipeline stages do, none is far apart from the next.
      const double steps = kNamedShareAlone * static_cast<double>(out_.steps);
      if (const auto split = most_culprits(culprits_, steps, means_, groups_))
        if (const auto accused = accuse(*split, noise_ms_); accused.has_value() && shares_enough(*accused))
          prefer(found, accused);
    }
    if (!found.has_value()) return false;
    if (found->ranks.size() == 1)
      out_.kind = VerdictKind::one_rank;
    else
      out_.kind = found->group.has_value() ? VerdictKind::one_group : VerdictKind::several_ranks;
    out_.tentative = found->present < kTentativeSteps;
    out_.held = std::move(found);
    return true;
  }

  // Who is slow now goes before who was.
  static void prefer(std::optional<Held>& found, std::optional<Held> other) {
    if (other.has_value() && (!found.has_value() || !other->until.has_value())) found = std::move(other);
  }

  // Of the ranks that stand apart by these means over the rows since `from`, those that can be named.
  std::optional<Held> choose(const std::vector<RankMean>& means, Rows from) const {
    std::optional<Held> found;
    std::set<Rank> looked_at, evident;
    for (std::size_t choice = 0; choice < kChoices; ++choice) {
      auto split = best_split(means, looked_at, groups_);
      if (!split.has_value() || !split->stands_apart()) break;
      narrow(*split, means, from);
      looked_at.insert(split->ranks.begin(), split->ranks.end());
      // Ranks chosen for their high means have a high mean by choice: only for a group, which was there
      // before, is it steadier than that of one rank.
      const double members = split->group == nullptr ? 1 : static_cast<double>(split->ranks.size());
      const auto accused = accuse(*split, noise_ms_ / std::sqrt(members));
      if (!accused.has_value()) continue;
      if (shares_enough(*accused))
        prefer(found, accused);
      else if (!accused->until.has_value())
        evident.insert(split->ranks.begin(), split->ranks.end());
      if (found.has_value() && !found->until.has_value()) return found;
    }
    prefer(found, together(evident));
    return found;
  }

  // Slow ranks that take turns as the slowest: none is it often enough alone.
  std::optional<Held> together(const std::set<Rank>& evident) const {
    if (evident.size() < 2 || 2 * evident.size() > means_.size()) return std::nullopt;
    const auto accused =
        accuse({.ranks = {evident.begin(), evident.end()}, .among = means_.size()}, noise_ms_);
    return accused.has_value() && shares_enough(*accused) ? accused : std::nullopt;
  }

  // Leaves out those who are slow too, but not as slow as the ones that the others wait for: first by the
  // newest steps, since they may have been overtaken; then by these means, which tell smaller differences.
  void narrow(Split& split, const std::vector<RankMean>& means, Rows from) const {
    if (split.ranks.size() < 2) return;
    const auto of_means = [&](const std::vector<Rank>& ranks) {
      std::vector<double> values;
      values.reserve(ranks.size());
      for (const Rank rank : ranks)
        values.push_back(std::ranges::lower_bound(means, rank, {}, &RankMean::rank)->excess_ms);
      return values;
    };
    std::vector<Rank> left = near_most(split.ranks, excess_now(split.ranks), kNowSteps, kNowWithinErrors);
    left = near_most(left, of_means(left), std::distance(from, end_), kHoldsWithinErrors);
    const bool still_the_group = split.group != nullptr && 2 * left.size() > split.ranks.size();
    if (left.size() == split.ranks.size() || still_the_group) return;
    split.group = group_of(left, means_, groups_);
    split.ranks = std::move(left);
  }

  // Those whose excess over so many steps is near the largest, within so many standard errors.
  std::vector<Rank> near_most(const std::vector<Rank>& ranks, const std::vector<double>& excess,
                              std::ptrdiff_t steps, double errors) const {
    const double error = noise_ms_ / std::sqrt(effective_size(static_cast<double>(steps), autocorrelation_));
    const double enough = (1 - kHoldsWithin) * std::ranges::max(excess) - errors * error;
    std::vector<Rank> near;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (excess[i] >= enough) near.push_back(ranks[i]);
    return near;
  }

  // The median excess of each over the newest steps, in which one pause does not count.
  std::vector<double> excess_now(const std::vector<Rank>& ranks) const {
    std::vector<std::vector<double>> values(ranks.size());
    const auto newest = std::min<std::ptrdiff_t>(kNowSteps, std::distance(begin_, end_));
    each(std::prev(end_, newest), end_, [&](const OwnRow& row) {
      std::size_t at = 0;
      row.each_of(ranks, [&](std::size_t i) {
        while (ranks[at] < row.own->ranks[i]) ++at;
        values[at].push_back(row.excess(i));
      });
    });
    std::vector<double> now;
    now.reserve(values.size());
    for (std::vector<double>& of_rank : values) now.push_back(of_rank.empty() ? 0 : Middle(of_rank).median());
    return now;
  }

  /// Judged rows, some of them.
  struct Range {
    Rows from, to;
  };

  // The ranks, when there is evidence that they are slow; whether they are the culprits often enough is
  // another question. `noise_ms` is that of their excess from step to step at least.
  std::optional<Held> accuse(const Split& split, double noise_ms) const {
    Held held{.ranks = split.ranks, .group = {}, .since = {}, .until = {}};
    Range range{begin_, end_};
    if (!find_since(held, range)) return std::nullopt;
    if (std::vector<Rank> slow = slow_in(range, split); slow.size() < split.ranks.size())
      return accuse({.ranks = slow, .group = group_of(slow, means_, groups_), .among = split.among},
                    noise_ms_);
    if (!is_evident_in(range, split, noise_ms)) {
      // Too few steps since it changed may be enough with those before.
      if (range.from == begin_ || held.until.has_value()) return std::nullopt;
      held.since.reset();
      range.from = begin_;
      if (!is_evident_in(range, split, noise_ms)) return std::nullopt;
    }
    // What a rank that is gone did says nothing of those who are there.
    if (after_gone_ != end_ && after_gone_->first > range.from->first &&
        (range.to == end_ || after_gone_->first < range.to->first))
      range.from = after_gone_;
    held.group = split.group != nullptr ? std::optional(*split.group) : neighbours(held.ranks);
    measure(held, range);
    if (held.slowdown < kBalanced) return std::nullopt;
    return held;
  }

  // Of ranks that are no group those that are slow in these rows, half as slow as the slowest at least: they
  // were chosen by their means over other rows.
  std::vector<Rank> slow_in(const Range& range, const Split& split) const {
    if (split.ranks.size() < 2 || split.group != nullptr) return split.ranks;
    std::vector<double> means;
    means.reserve(split.ranks.size());
    for (const Rank rank : split.ranks) {
      const std::vector<double> series = series_of({rank}, range.from, range.to);
      means.push_back(series.size() < 2 ? 0 : trimmed_mean(series).mean);
    }
    const double enough = std::ranges::max(means) / 2;
    std::vector<Rank> slow;
    for (std::size_t i = 0; i < means.size(); ++i)
      if (means[i] >= enough) slow.push_back(split.ranks[i]);
    return slow;
  }

  bool is_evident_in(const Range& range, const Split& split, double noise_ms) const {
    const std::vector<double> series = series_of(split.ranks, range.from, range.to);
    return series.size() >= kVerdictSteps &&
           is_evident(series, kCulpritExcess * usual_wall(range), kNamedSigmas, noise_ms, autocorrelation_);
  }

  /// The excess of some ranks in the rows that they are in.
  struct Excess {
    std::vector<double> values;
    std::vector<Rows> rows;
  };
  Excess excess_since(const std::vector<Rank>& ranks, Rows from) const {
    Excess excess;
    for (auto row = from; row != end_; ++row) {
      const auto value = row->second.excess_of(ranks);
      if (!value.has_value()) continue;
      excess.values.push_back(*value);
      excess.rows.push_back(row);
    }
    return excess;
  }

  // Looks for the step since when, or until when, and narrows the rows down to it. False when they are slow
  // no longer since before the judged rows.
  bool find_since(Held& held, Range& range) const {
    const Excess judged = excess_since(held.ranks, begin_);
    if (judged.values.empty()) return false;
    if (const auto episode = find_episode(judged.values);
        episode.has_value() && episode->inside > 2 * episode->outside) {
      range = {judged.rows[episode->begin], judged.rows[episode->end]};
      held.since = range.from->first;
      held.until = range.to->first;
      return true;
    }
    const auto change = find_last_change(judged.values);
    if (!change.has_value()) return look_back(held, judged, range);
    const Rows at = judged.rows[change->at];
    if (2 * change->before < change->after) {
      held.since = at->first;
      range.from = at;
    } else if (change->after < change->before && change->after > kCulpritExcess * out_.wall_ms) {
      // Less slow than before and still slow: what it is now is what counts.
      range.from = at;
    } else if (2 * change->after < change->before) {
      held.until = at->first;
      range.to = at;
      const auto rise = find_last_change(std::span(judged.values).first(change->at));
      if (rise.has_value() && 2 * rise->before < rise->after) {
        range.from = judged.rows[rise->at];
        held.since = range.from->first;
      }
    }
    return true;
  }

  // They are as slow in all the judged rows that they are in: since before these, or since they joined.
  bool look_back(Held& held, const Excess& judged, Range& range) const {
    const Rows first = judged.rows.front();
    if (std::distance(begin_, first) >= static_cast<std::ptrdiff_t>(kChangeMargin)) {
      held.since = first->first;
      range.from = first;
      return true;
    }
    Rows from = begin_;
    for (std::ptrdiff_t reach = std::distance(begin_, end_); from != rows_.begin(); reach *= 2) {
      for (std::ptrdiff_t i = 0; i < reach && from != rows_.begin(); ++i) --from;
      const Excess kept = excess_since(held.ranks, from);
      const auto change = find_last_change(kept.values);
      if (!change.has_value()) continue;
      if (2 * change->before < change->after) held.since = kept.rows[change->at]->first;
      break;
    }
    return true;
  }

  static double usual_wall(const Range& range) {
    std::vector<double> walls;
    each(range.from, range.to, [&](const OwnRow& row) { walls.push_back(row.wall_ms); });
    return Middle(walls).median();
  }

  void measure(Held& held, const Range& range) const {
    std::map<StageId, double> by_stage;
    std::map<Rank, std::map<StageId, double>> by_rank;
    const double pause = kPauseWalls * usual_wall(range);
    double excess = 0, lost = 0, n = 0, n_present = 0, present_ranks = 0, as_culprit = 0;
    double covered = 0, n_covered = 0;
    each(range.from, range.to, [&](const OwnRow& row) {
      ++held.steps;
      as_culprit += row.culprit.has_value() && std::ranges::binary_search(held.ranks, *row.culprit) ? 1 : 0;
      const auto mine = row.excess_of(held.ranks);
      held.present += mine.has_value() ? 1 : 0;
      if (row.wall_ms > pause) return;
      if (row.culprit.has_value() && std::ranges::binary_search(held.ranks, *row.culprit)) {
        covered += row.own->more_covered_ms;
        ++n_covered;
      }
      ++n;
      held.wall_ms += row.wall_ms;
      lost += row.max_own_ms - row.mean_own_ms;
      if (!mine.has_value()) return;
      ++n_present;
      excess += *mine;
      row.each_of(held.ranks, [&](std::size_t i) {
        ++present_ranks;
        if (row.own->stage[i] == kNoStage) return;
        by_stage[row.own->stage[i]] += row.own->stage_excess_ms[i];
        if (held.ranks.size() <= kStagesListed)
          by_rank[row.own->ranks[i]][row.own->stage[i]] += row.own->stage_excess_ms[i];
      });
    });
    held.excess_ms = n_present > 0 ? excess / n_present : 0;
    held.more_covered_ms = n_covered > 0 ? covered / n_covered : 0;
    held.wall_ms /= n;
    held.slowdown = ratio_of(held.wall_ms, lost / n);
    held.share = as_culprit / static_cast<double>(held.steps);
    held.stage = most_of(by_stage);
    if (held.stage == kNoStage) return;
    held.stage_excess_ms = by_stage.at(held.stage) / present_ranks;
    if (held.group.has_value() || by_rank.size() < 2 ||
        held.stage_excess_ms >= kMostlyOneStage * held.excess_ms)
      return;
    for (const Rank rank : held.ranks) held.stages.push_back(most_of(by_rank[rank]));
    if (std::ranges::all_of(held.stages, [&](StageId stage) { return stage == held.stage; }))
      return held.stages.clear();
    held.stage = kNoStage;
    held.stage_excess_ms = 0;
  }

  bool shares_enough(const Held& held) const {
    if (held.ranks.size() > 1) return held.share >= kNamedShareOfGroup;
    double next = 0;  // over the whole window, which is more than fair to the others
    for (const CulpritShare& culprit : out_.culprits)
      if (culprit.rank != held.ranks.front() && is_here(culprit.rank)) next = std::max(next, culprit.share);
    return held.share >= kNamedShare && (held.share > kNamedShareOfGroup || held.share >= kNamedLead * next);
  }

  // ---- nobody ----

  VerdictKind nobody() const {
    const bool unaccounted = ratio_of(out_.wall_ms, sync_skew_ms_) >= kBalanced;
    if (out_.slowdown >= kBalanced)
      return unaccounted && sync_skew_ms_ >= out_.lost_ms ? VerdictKind::inside_sync : VerdictKind::rotating;
    if (!out_.has_sync() && !out_.counted_twice && out_.mean_own_ms >= kAllOwn * out_.wall_ms)
      return VerdictKind::unknown;
    const bool hides = is_valid(out_.least_sync_ms) && out_.least_sync_ms >= kHidingSync * out_.wall_ms;
    return hides || unaccounted ? VerdictKind::inside_sync : VerdictKind::balanced;
  }

  const OwnRows& rows_;
  const std::vector<RankGroup>& groups_;
  const Sums& sums_;
  Rows begin_, end_;  // the judged ones
  Rows after_gone_;   // behind the last one whose culprit is not there any more
  std::size_t recent_;
  std::vector<bool> here_;              // by place in sums_
  std::vector<RankMean> means_;         // by rank
  std::vector<CulpritCount> culprits_;  // by rank
  double noise_ms_ = 0;                 // of a rank's excess from step to step
  double autocorrelation_ = 0;          // of it
  double sync_skew_ms_ = 0;
  Verdict out_;
};

}  // namespace

Verdict judge(const OwnRows& rows, OwnRows::const_iterator begin, std::size_t recent,
              const std::vector<VerdictWindow::Sums>& sums, const Placement& placement) {
  return Judge(rows, begin, recent, sums, placement).run(placement);
}

}  // namespace laggard::core
