#include "daemon/core/outside.h"

#include "daemon/core/judge.h"

namespace laggard::core {
namespace {

double usual_wall(OwnRows::const_iterator from, OwnRows::const_iterator to) {
  std::vector<double> walls;
  for (auto row = from; row != to; ++row) walls.push_back(row->second.wall_ms);
  return Middle(walls).median();
}

}  // namespace

Outside find_outside(const OwnRows& rows, OwnRows::const_iterator begin, std::size_t recent,
                     const std::vector<VerdictWindow::Sums>& sums) {
  struct Sum {
    double steps = 0, excess_ms = 0;
  };
  Outside out;
  const auto judged = static_cast<std::size_t>(std::distance(begin, rows.end()));
  if (judged < kVerdictSteps) return out;
  const auto from =
      recent == 0 || judged <= recent ? begin : std::prev(rows.end(), static_cast<std::ptrdiff_t>(recent));
  const double pause = kPauseWalls * usual_wall(from, rows.end());
  std::vector<Sum> by_place(sums.size());
  double steps = 0;
  for (auto row = from; row != rows.end(); ++row) {
    if (row->second.wall_ms > pause) continue;
    ++steps;
    std::size_t place = 0;
    for (const OwnTimes::Outside& outside : row->second.own->outside) {
      while (sums[place].rank < outside.rank) ++place;
      ++by_place[place].steps;
      by_place[place].excess_ms += outside.excess_ms;
    }
  }
  for (std::size_t place = 0; place < sums.size(); ++place) {
    const Sum& sum = by_place[place];
    if (sum.steps == 0 || sum.steps < kOutsideShare * steps) continue;
    const double excess_ms = sum.excess_ms / steps;
    out.least_ms = out.ranks.empty() ? excess_ms : std::min(out.least_ms, excess_ms);
    out.most_ms = std::max(out.most_ms, excess_ms);
    out.ranks.push_back(sums[place].rank);
  }
  return out;
}

}  // namespace laggard::core
