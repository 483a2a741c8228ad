#include "daemon/core/verdict_window.h"

#include <numeric>

#include "daemon/core/judge.h"

namespace laggard::core {

double OwnRow::excess(std::size_t i) const {
  const double mine = own->own_ms[i];
  return mine - middle.median_without(mine);
}

double OwnRow::bounded_excess(std::size_t i) const {
  constexpr double kBound = 0.25;
  const double bound = kBound * middle.median(), all = excess(i);
  return bound > 0 ? std::clamp(all, -bound, bound) : all;
}

std::optional<double> OwnRow::excess_of(const std::vector<Rank>& ranks) const {
  double sum = 0;
  std::size_t present = 0, last = 0;
  each_of(ranks, [&](std::size_t i) {
    sum += own->own_ms[i];
    ++present;
    last = i;
  });
  const std::size_t all = own->ranks.size(), others = all - present;
  if (present == 0 || others == 0) return std::nullopt;
  if (ranks.size() == 1) return excess(last);
  const double rest = mean_own_ms * static_cast<double>(all) - sum;
  return sum / static_cast<double>(present) - rest / static_cast<double>(others);
}

double OwnRow::largest_without(const std::vector<Rank>& ranks) const {
  double largest = 0;
  for (std::size_t i = 0; i < own->ranks.size(); ++i)
    if (own->own_ms[i] > largest && !std::ranges::binary_search(ranks, own->ranks[i]))
      largest = own->own_ms[i];
  return largest;
}

void VerdictWindow::put(const StepOwn& step) {
  const OwnTimes* own = step.own.get();
  if (own == nullptr || own->ranks.size() < 2 || !is_valid(step.wall_ms)) return drop(step.step);
  std::vector<double> values(own->own_ms.begin(), own->own_ms.end());
  const auto largest = std::ranges::max_element(own->own_ms);
  OwnRow row{
      .own = step.own,
      .wall_ms = step.wall_ms,
      .partial = step.partial,
      .culprit = step.culprit,
      .max_own_ms = *largest,
      .mean_own_ms = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
      .min_own_ms = *std::ranges::min_element(own->own_ms),
      .max_rank = own->ranks[static_cast<std::size_t>(largest - own->own_ms.begin())],
      .middle = Middle(values)};
  for (auto it = own->own_ms.begin(); it != own->own_ms.end(); ++it)
    if (it != largest) row.second_own_ms = std::max<double>(row.second_own_ms, *it);
  row.odd = row.max_own_ms > kOddWalls * row.wall_ms;
  const bool is_newest = rows_.empty() || step.step > rows_.rbegin()->first;
  if (!is_newest) drop(step.step);
  cells_ += own->ranks.size();
  const auto at = rows_.emplace(step.step, std::move(row)).first;
  if (!is_newest) {
    stale_ = true;
  } else if (!stale_) {
    add(at->second, 1);
    if (size_.judged != 0 && rows_.size() > size_.judged) add(std::prev(judged_begin())->second, -1);
    // Taking a row away leaves rounding errors behind, large ones after a large outlier.
    if (++moved_ >= size_.judged && size_.judged != 0) stale_ = true;
  }
  trim();
}

void VerdictWindow::drop(Step step) {
  const auto at = rows_.find(step);
  if (at == rows_.end()) return;
  cells_ -= at->second.own->ranks.size();
  rows_.erase(at);
  stale_ = true;
}

void VerdictWindow::set_partial(Step step) {
  if (const auto at = rows_.find(step); at != rows_.end()) at->second.partial = true;
}

void VerdictWindow::trim() {
  while (size_.kept != 0 && rows_.size() > std::max(size_.kept, size_.judged)) forget_first();
  while (size_.cells != 0 && cells_ > size_.cells && rows_.size() > kTentativeSteps) forget_first();
}

void VerdictWindow::forget_first() {
  const auto first = rows_.begin();
  if (first == judged_begin() && !stale_) add(first->second, -1);
  cells_ -= first->second.own->ranks.size();
  rows_.erase(first);
}

OwnRows::const_iterator VerdictWindow::judged_begin() const {
  if (size_.judged == 0 || rows_.size() <= size_.judged) return rows_.begin();
  return std::prev(rows_.end(), static_cast<std::ptrdiff_t>(size_.judged));
}

VerdictWindow VerdictWindow::without_odd() const {
  VerdictWindow rest = *this;
  std::erase_if(rest.rows_, [](const auto& row) { return row.second.odd; });
  rest.stale_ = true;
  return rest;
}

Verdict VerdictWindow::judge(const Placement& placement) const {
  const auto begin = judged_begin();
  const auto odd = std::count_if(begin, rows_.end(), [](const auto& row) { return row.second.odd; });
  if (odd > 0 && 2 * odd < std::distance(begin, rows_.end())) {
    Verdict verdict = without_odd().judge(placement);
    verdict.odd_steps = static_cast<std::uint64_t>(odd);
    return verdict;
  }
  if (stale_) rebuild();
  return core::judge(rows_, judged_begin(), size_.recent, sums_, placement);
}

// Adds a row to the sums, or takes it away again.
void VerdictWindow::add(const OwnRow& row, double sign) const {
  const std::vector<Rank>& ranks = row.own->ranks;
  auto at = sums_.begin();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (at == sums_.end() || at->rank != ranks[i]) {
      at = std::lower_bound(sums_.begin(), sums_.end(), ranks[i],
                            [](const Sums& sums, Rank rank) { return sums.rank < rank; });
      if (at == sums_.end() || at->rank != ranks[i]) at = sums_.insert(at, {.rank = ranks[i]});
    }
    const double excess = row.excess(i), bounded = row.bounded_excess(i);
    at->steps = sign > 0 ? at->steps + 1 : at->steps - 1;
    at->excess += sign * excess;
    at->bounded += sign * bounded;
    at->bounded_squares += sign * bounded * bounded;
    ++at;
  }
}

void VerdictWindow::rebuild() const {
  sums_.clear();
  for (auto row = judged_begin(); row != rows_.end(); ++row) add(row->second, 1);
  stale_ = false;
  moved_ = 0;
}

}  // namespace laggard::core
