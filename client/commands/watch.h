// A status that keeps itself up to date.
#pragma once

#include "client/commands/commands.h"

namespace laggard::client {

/// Watches a run until it has ended, a signal ends the process, or the reader of a pipe has gone. A collector
/// or a run that is not there, at first or later, is waited for.
void watch_run(const Context& context, const RunRef& run);

}  // namespace laggard::client
