// Where the library's log goes inside a process that is not ours.
#pragma once

#include <spdlog/fwd.h>

#include <memory>

namespace laggard::agent {

/// Warnings and errors on stderr, with the name "laggard". A stderr that takes nothing, such as a full pipe
/// that nobody reads or a pipe whose reader is gone, loses lines and stops no thread.
std::shared_ptr<spdlog::logger> make_api_log();

}  // namespace laggard::agent
