// Numbers as people and programs read them.
#pragma once

#include <cstdint>
#include <string>

namespace laggard::client {

/// The shortest text that reads back as the same double.
std::string shortest(double value);

/// The value with exactly this many digits behind the point, rounded correctly.
std::string fixed(double value, int digits);

/// How long ago, in its two largest units: "0.3 s", "42 s", "3 min 4 s", "2 h 5 min", "3 d 4 h".
std::string age(std::int64_t ms);

}  // namespace laggard::client
