// The page that Prometheus scrapes. docs/metrics.md says what each metric means.
#pragma once

#include <string>

#include "daemon/serve/counters.h"
#include "daemon/serve/query_service.h"

namespace laggard::serve {

/// The metrics of every running or stalled run and of the collector. How many series there are depends on
/// runs and their stages alone, and on their ranks when `ranks` asks for series of each rank. What the caps
/// leave out is added to `counters`. Throws QueryError before the first snapshot.
std::string metrics_page(const QueryService& service, Counters& counters, bool ranks);

}  // namespace laggard::serve
