// Which stages are named for the difference of the wall.
#include <algorithm>
#include <cmath>

#include "daemon/core/compare.h"

namespace laggard::core {
namespace {

// Of the wall's difference: what is less says nothing about it, however sure it is.
constexpr double kLeastShare = 0.01;
// Stages inside of another that move against each other, so that less than this is left of what they moved,
// are told by the outer one.
constexpr double kLeastNet = 0.5;

/// Picks the rows that are named from the stage tree of one clock.
class Causes {
 public:
  explicit Causes(Comparison& comparison) : comparison_(comparison) {}

  void visit(const std::string& parent) {
    for (const std::size_t i : inside_of(parent)) {
      const ComparedRow& row = comparison_.rows[i];
      const std::vector<std::size_t> inner = row.exclusive ? std::vector<std::size_t>{} : inside_of(row.name);
      const std::size_t named = comparison_.causes.size();
      if (!inner.empty() && !cancel_out(row, inner)) visit(row.name);
      if (comparison_.causes.size() == named && is_cause(comparison_.rows[i])) name(i);
    }
  }

 private:
  bool is_outer(const std::string& name) const {
    return std::any_of(comparison_.rows.begin(), comparison_.rows.end(), [&](const ComparedRow& row) {
      return row.figure == Figure::stage && row.clock == comparison_.clock && !row.exclusive &&
             row.name == name;
    });
  }

  std::vector<std::size_t> inside_of(const std::string& parent) const {
    std::vector<std::size_t> inside;
    for (std::size_t i = 0; i < comparison_.rows.size(); ++i) {
      const ComparedRow& row = comparison_.rows[i];
      if (row.figure != Figure::stage || row.clock != comparison_.clock) continue;
      // A stage is on top as well when nothing was measured of the one that it is said to be inside of.
      if (row.parent == parent || (parent.empty() && !is_outer(row.parent))) inside.push_back(i);
    }
    return inside;
  }

  bool cancel_out(const ComparedRow& outer, const std::vector<std::size_t>& inner) const {
    double moved = 0;
    for (const std::size_t i : inner) {
      const double difference = comparison_.rows[i].difference;
      if (!std::isfinite(difference)) return true;  // one that cannot be told hides what it moved
      moved += std::abs(difference);
    }
    return std::abs(outer.difference) < kLeastNet * moved;
  }

  bool is_cause(const ComparedRow& row) const {
    return row.finding == Finding::beyond &&
           std::abs(row.difference) >= kLeastShare * std::abs(comparison_.wall().difference);
  }

  void name(std::size_t i) {
    comparison_.rows[i].cause = true;
    comparison_.causes.push_back(i);
  }

  Comparison& comparison_;
};

}  // namespace

void name_causes(Comparison& comparison) {
  if (!comparison.match.pass || comparison.wall().finding != Finding::beyond) return;
  Causes(comparison).visit("");
  std::stable_sort(comparison.causes.begin(), comparison.causes.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(comparison.rows[a].difference) > std::abs(comparison.rows[b].difference);
  });
}

}  // namespace laggard::core
