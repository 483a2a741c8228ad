// Minimum, median, mean, maximum: how one number spreads over the ranks.
#pragma once

#include <span>
#include <vector>

#include "daemon/base/record.h"
#include "daemon/base/value.h"

namespace laggard::core {

/// Minimum, median, mean, maximum over the ranks that have a valid value; all kAbsent when none has.
struct Spread {
  std::uint32_t present = 0;
  double min = kAbsent;
  double median = kAbsent;  ///< the mean of the two middle values of an even number
  double mean = kAbsent;
  double max = kAbsent;
  Rank max_rank = 0;  ///< the lowest on a tie
  Rank min_rank = 0;
};

/// The middle of some values, enough for two medians: that of all of them, and that of all but one.
class Middle {
 public:
  /// Reorders the values, of which there must be one.
  explicit Middle(std::vector<double>& values);

  /// The mean of the two middle values of an even number.
  double median() const { return odd_ ? at_ : (below_ + at_) / 2; }
  /// The same of the values without one that equals `value`; kAbsent when it is the only one.
  double median_without(double value) const;

 private:
  bool odd_;
  std::size_t others_;
  double below_ = kAbsent, at_ = kAbsent, above_ = kAbsent;  // the middle value and its neighbours
};

/// The spread of a row of values, one for each record, but for its median. Leaves the valid ones in `valid`,
/// in any order.
Spread spread_of(std::span<const double> values, std::span<const RecordView> records,
                 std::vector<double>& valid);

}  // namespace laggard::core
