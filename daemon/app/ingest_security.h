// The keys of the ingest side, from the files that the configuration names.
#pragma once

#include <optional>

#include "daemon/app/config.h"
#include "daemon/ingest/server.h"

namespace laggard::app {

/// Nothing when no key is set: then agents need none. Throws Error when the key's file is not private, and
/// for an allow-list that is missing or without a key. Nobody is ever taken because a list is missing.
std::optional<ingest::Security> ingest_security(const Config& config);

}  // namespace laggard::app
