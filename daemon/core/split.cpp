#include "daemon/core/split.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace laggard::core {
namespace {

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

Split split_into(const SumOfMeans& part, const SumOfMeans& all, std::size_t among) {
  const SumOfMeans rest = all - part;
  return {.ranks = {},
          .among = among,
          .within = part.within() + rest.within(),
          .apart_ms = part.mean() - rest.mean()};
}

// Visits those of the ranks, ascending, that have a place in `by_rank`.
template <typename ByRank, typename Visit>
void each_in(const std::vector<Rank>& ranks, const std::vector<ByRank>& by_rank, const Visit& visit) {
  auto at = by_rank.begin();
  for (const Rank rank : ranks) {
    at = std::lower_bound(at, by_rank.end(), rank,
                          [](const ByRank& entry, Rank wanted) { return entry.rank < wanted; });
    if (at == by_rank.end()) return;
    if (at->rank == rank) visit(*at);
  }
}

std::vector<Rank> members_of(const RankGroup& group, const std::vector<RankMean>& means) {
  std::vector<Rank> ranks;
  each_in(group.ranks, means, [&](const RankMean& mean) { ranks.push_back(mean.rank); });
  return ranks;
}

// A group that explains about as much says more than a list of ranks.
void prefer_group(Split& best, const SumOfMeans& all, const std::vector<RankMean>& means,
                  const std::vector<RankGroup>& groups) {
  const double enough = best.fit() / kGroupFit;
  std::optional<Split> chosen;
  for (const RankGroup& group : groups) {
    SumOfMeans part;
    std::size_t size = 0;
    bool same = true;
    each_in(group.ranks, means, [&](const RankMean& mean) {
      same = same && size < best.ranks.size() && best.ranks[size] == mean.rank;
      ++size;
      part.add(mean.excess_ms);
    });
    if (size < 2 || 2 * size > means.size()) continue;
    same = same && size == best.ranks.size();
    Split split = split_into(part, all, means.size());
    if (!(split.apart_ms > 0) || (!same && split.fit() < enough)) continue;
    split.group = &group;
    if (!chosen.has_value() || split.fit() > chosen->fit()) chosen = std::move(split);
  }
  if (!chosen.has_value()) return;
  chosen->ranks = members_of(*chosen->group, means);
  best = *std::move(chosen);
}

}  // namespace

double Split::fit() const {
  constexpr double kTiny = 1e-9;  // for means that agree exactly
  return apart_ms > 0 ? apart_ms * apart_ms / (within + kTiny) : 0;
}

bool Split::stands_apart() const {
  if (!(apart_ms > 0)) return false;
  return among < kEnoughToTellApart ||
         apart_ms >= kNamedApart * std::sqrt(within / static_cast<double>(among - 2));
}

std::optional<Split> best_split(const std::vector<RankMean>& means, const std::set<Rank>& without,
                                const std::vector<RankGroup>& groups) {
  std::vector<RankMean> by_rank = means;
  if (!without.empty())
    std::erase_if(by_rank, [&](const RankMean& mean) { return without.contains(mean.rank); });
  std::vector<RankMean> sorted = by_rank;
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
    Split split = split_into(part, all, sorted.size());
    if (best.has_value() && split.fit() <= best->fit()) continue;
    best = std::move(split);
    best_size = i + 1;
  }
  if (!best.has_value()) return best;
  for (std::size_t i = 0; i < best_size; ++i) best->ranks.push_back(sorted[i].rank);
  std::ranges::sort(best->ranks);
  if (best_size > 1) prefer_group(*best, all, by_rank, groups);
  return best;
}

const RankGroup* group_of(const std::vector<Rank>& ranks, const std::vector<RankMean>& means,
                          const std::vector<RankGroup>& groups) {
  if (ranks.size() < 2) return nullptr;
  const auto it = std::ranges::find_if(groups, [&](const RankGroup& group) {
    return group.ranks.size() >= ranks.size() && members_of(group, means) == ranks;
  });
  return it == groups.end() ? nullptr : &*it;
}

std::optional<RankGroup> neighbours(const std::vector<Rank>& ranks) {
  constexpr std::size_t kNeighbours = 3;
  if (ranks.size() < kNeighbours || ranks.back() - ranks.front() + 1 != ranks.size()) return std::nullopt;
  return RankGroup{"ranks", std::to_string(ranks.front()) + "-" + std::to_string(ranks.back()), ranks};
}

std::optional<Split> most_culprits(const std::vector<CulpritCount>& counts, double steps,
                                   const std::vector<RankMean>& means, const std::vector<RankGroup>& groups) {
  std::optional<Split> chosen;
  std::size_t most = 0;
  const auto consider = [&](std::vector<Rank> ranks, const RankGroup* group, std::size_t found) {
    if (static_cast<double>(found) < steps || 2 * ranks.size() > means.size()) return;
    if (chosen.has_value() &&
        (ranks.size() > chosen->ranks.size() || (ranks.size() == chosen->ranks.size() && found <= most)))
      return;
    most = found;
    chosen = Split{.ranks = std::move(ranks), .group = group, .among = means.size()};
  };
  for (const CulpritCount& count : counts) consider({count.rank}, nullptr, count.steps);
  if (chosen.has_value()) return chosen;
  for (const RankGroup& group : groups) {
    std::size_t found = 0;
    each_in(group.ranks, counts, [&](const CulpritCount& count) { found += count.steps; });
    std::vector<Rank> ranks = members_of(group, means);
    if (ranks.size() > 1) consider(std::move(ranks), &group, found);
  }
  return chosen;
}

}  // namespace laggard::core
