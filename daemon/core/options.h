// What an operator may change about alignment and liveness.
#pragma once

#include <cstdint>

namespace laggard::core {

struct Options {
  /// A step that lacks a rank is overdue when it is older than the larger of these two ...
  std::int64_t overdue_after_ms = 10'000;
  double overdue_factor = 3;               ///< ... times the median step wall
  std::int64_t stalled_after_ms = 60'000;  ///< or 5 median step walls, whichever is longer
  std::int64_t lost_after_ms = std::int64_t{30} * 60'000;
  /// A source that has not been heard for so long is gone, until it is heard again.
  std::int64_t source_timeout_ms = 10'000;
};

inline constexpr double kStalledWalls = 5;

}  // namespace laggard::core
