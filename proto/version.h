// The version of the wire protocol; README.md in this folder says when it goes up.
#pragma once

#include <cstdint>

namespace laggard {

inline constexpr std::uint32_t kProtocolVersion = 1;

}  // namespace laggard
