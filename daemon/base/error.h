// The one exception of the project: something a person has to hear about.
#pragma once

#include <stdexcept>
#include <string>

namespace laggard {

/// Says what is wrong, where, and what to do. Thrown while starting, opening or configuring; never for bad
/// input from a socket or a followed file, which is counted instead.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace laggard
