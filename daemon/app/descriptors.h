// How many descriptors the process may have, and how the two ports share them.
#pragma once

#include <cstddef>

namespace laggard::app {

struct ConnectionShares {
  std::size_t agents = 0, http = 0;
};

/// Raises the limit of open files to the highest that the process may set itself, and returns it.
std::size_t raise_descriptor_limit();

/// What each port may have of so many descriptors, so that files can be opened whatever comes from outside.
/// Throws Error when there are too few.
ConnectionShares share_descriptors(std::size_t descriptors);

}  // namespace laggard::app
