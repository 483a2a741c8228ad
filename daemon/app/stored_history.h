// The query service's view of the database.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "daemon/serve/history.h"

namespace laggard::app {

/// A History on a read-only connection of its own to the database; reading takes at most `limit` a call.
std::unique_ptr<serve::History> open_history(const std::filesystem::path& database,
                                             std::chrono::milliseconds limit);

}  // namespace laggard::app
