#include "daemon/core/verdict_window.h"

#include <algorithm>
#include <numeric>

namespace laggard::core {

double VerdictWindow::Row::excess(std::size_t i) const {
  const double mine = own->own_ms[i];
  return mine - middle.median_without(mine);
}

void VerdictWindow::put(const StepOwn& step) {
  const OwnTimes* own = step.own.get();
  if (own == nullptr || own->ranks.size() < 2 || !is_valid(step.wall_ms)) return drop(step.step);
  std::vector<double> values(own->own_ms.begin(), own->own_ms.end());
  const auto largest = std::ranges::max_element(own->own_ms);
  Row row{
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

// Never takes a judged step, so the sums stay as they are.
void VerdictWindow::trim() {
  if (size_.judged == 0) return;
  const auto too_many = [&] {
    return rows_.size() > size_.judged &&
           (rows_.size() > size_.kept || (size_.cells != 0 && cells_ > size_.cells));
  };
  while (too_many()) {
    cells_ -= rows_.begin()->second.own->ranks.size();
    rows_.erase(rows_.begin());
  }
}

VerdictWindow::Rows::const_iterator VerdictWindow::judged_begin() const {
  if (size_.judged == 0 || rows_.size() <= size_.judged) return rows_.begin();
  return std::prev(rows_.end(), static_cast<std::ptrdiff_t>(size_.judged));
}

// Adds a row to the sums, or takes it away again.
void VerdictWindow::add(const Row& row, double sign) const {
  const std::vector<Rank>& ranks = row.own->ranks;
  auto at = sums_.begin();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (at == sums_.end() || at->rank != ranks[i]) {
      at = std::lower_bound(sums_.begin(), sums_.end(), ranks[i],
                            [](const Sums& sums, Rank rank) { return sums.rank < rank; });
      if (at == sums_.end() || at->rank != ranks[i]) at = sums_.insert(at, {.rank = ranks[i]});
    }
    const double excess = row.excess(i);
    at->steps = sign > 0 ? at->steps + 1 : at->steps - 1;
    at->excess += sign * excess;
    at->squares += sign * excess * excess;
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
