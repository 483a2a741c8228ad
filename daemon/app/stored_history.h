// The query service's view of the database.
#pragma once

#include <filesystem>
#include <memory>

#include "daemon/serve/history.h"

namespace laggard::app {

/// A History on a read-only connection of its own to the database.
std::unique_ptr<serve::History> open_history(const std::filesystem::path& database);

}  // namespace laggard::app
