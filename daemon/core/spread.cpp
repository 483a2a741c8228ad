#include "daemon/core/spread.h"

#include <algorithm>

namespace laggard::core {

Middle::Middle(std::vector<double>& values) : odd_(values.size() % 2 == 1), others_(values.size() - 1) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), nth, values.end());
  at_ = *nth;
  if (nth != values.begin()) below_ = *std::max_element(values.begin(), nth);
  if (odd_ && nth + 1 != values.end()) above_ = *std::min_element(nth + 1, values.end());
}

double Middle::median_without(double value) const {
  if (others_ == 0) return kAbsent;
  if (!odd_) return value <= below_ ? at_ : below_;
  if (value < at_) return (at_ + above_) / 2;
  return ((value > at_ ? at_ : above_) + below_) / 2;
}

Spread spread_of(std::span<const double> values, std::span<const RecordView> records,
                 std::vector<double>& valid) {
  valid.clear();
  double sum = 0;
  std::size_t min = 0, max = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (!is_valid(value)) continue;
    if (valid.empty()) min = max = i;
    if (value < values[min]) min = i;
    if (value > values[max]) max = i;
    sum += value;
    valid.push_back(value);
  }
  Spread spread{.present = static_cast<std::uint32_t>(valid.size())};
  if (valid.empty()) return spread;
  spread.min = values[min];
  spread.min_rank = records[min].rank;
  spread.max = values[max];
  spread.max_rank = records[max].rank;
  spread.mean = sum / static_cast<double>(valid.size());
  return spread;
}

}  // namespace laggard::core
