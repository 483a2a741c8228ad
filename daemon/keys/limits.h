// The bounds of key files and allow-lists. docs/limits.md says what happens at each.
#pragma once

#include <cstddef>

namespace laggard::limits {

inline constexpr std::size_t kMaxAllowedKeys = 65'536;
inline constexpr std::size_t kMaxRunsPerKey = 1024;
inline constexpr std::size_t kMaxAllowListBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxKeyFileBytes = 4096;
inline constexpr std::size_t kMaxKeyNameBytes = 100;       ///< a name of key files
inline constexpr std::size_t kMaxRefusedKeysLogged = 100;  ///< until the allow-list changes

}  // namespace laggard::limits
