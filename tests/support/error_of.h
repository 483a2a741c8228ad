// The sentence that an action throws.
#pragma once

#include <string>

#include "daemon/base/error.h"

namespace laggard::test {

/// "" when it throws none.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace laggard::test
