// A series of numbers as one line of bars.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace laggard::client {

/// One bar for each of the last `width` values, scaled between the smallest and the largest shown; all low
/// bars when they are equal. An absent value is a gap.
std::string sparkline(std::span<const std::optional<double>> values, std::size_t width);

}  // namespace laggard::client
