#include "client/render/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace laggard::client {

std::string sparkline(std::span<const std::optional<double>> values, std::size_t width) {
  constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.size() > width) values = values.last(width);
  double low = std::numeric_limits<double>::max(), high = std::numeric_limits<double>::lowest();
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) continue;
    low = std::min(low, *value);
    high = std::max(high, *value);
  }
  std::string line;
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) {
      line += ' ';
      continue;
    }
    const double share = high > low ? (*value - low) / (high - low) : 0;
    line += kBars[static_cast<std::size_t>(std::lround(share * (kBars.size() - 1)))];
  }
  return line;
}

}  // namespace laggard::client
