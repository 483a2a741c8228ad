// The statistics of a comparison. Every figure is of runs, or of blocks of steps, never of single steps.
#pragma once

#include <span>
#include <vector>

#include "daemon/base/value.h"

namespace laggard::core {

/// kAbsent when there are no values.
double mean_of(std::span<const double> values);
double median_of(std::vector<double> values);
/// The standard deviation of a value among those of its side, of both sides together (pooled); kAbsent when
/// neither side has two values.
double pooled_deviation(std::span<const double> base, std::span<const double> newer);

/// Both ends are kAbsent when there is no interval.
struct Interval {
  double low = kAbsent, high = kAbsent;
  bool is_known() const { return low <= high; }
  bool leaves_out_zero() const { return is_known() && (low > 0 || high < 0); }
};

/// How sure an interval is: it holds the true difference in 95 of 100 comparisons whose assumptions hold.
inline constexpr double kConfidence = 0.95;
/// The p-value below which a rank test tells two sides apart; from it comes how many runs are needed.
inline constexpr double kSignificance = 0.05;

/// Interval of mean(newer) - mean(base). Two values and more on both sides: Welch's t (Biometrika 34:28,
/// 1947), which lets each side have its own spread. One value on one side: the other side's spread is taken
/// for both (pooled t). None when neither side has two values, or when no value differs from its side's mean:
/// such values are no measure of a spread.
Interval difference_interval(std::span<const double> base, std::span<const double> newer);
/// Student's t interval of the mean of newer[i] - base[i]; as long as each other.
Interval paired_interval(std::span<const double> base, std::span<const double> newer);

/// The median of all newer[j] - base[i] (Hodges and Lehmann, Annals of Mathematical Statistics 34:598, 1963).
double hodges_lehmann(std::span<const double> base, std::span<const double> newer);

/// Two-sided p-value of the rank sum (Mann and Whitney) over all ways to deal the values to the two sides,
/// each as likely: exact, with ties too, which get their mean rank.
double exact_rank_p(std::span<const double> base, std::span<const double> newer);
/// The smallest two-sided p-value that so many values can reach: 2 / (base + newer over base).
double smallest_rank_p(std::size_t base, std::size_t newer);
/// How many values a side exact_rank_p() needs before it can fall to kSignificance: 4.
std::size_t runs_needed();

}  // namespace laggard::core
