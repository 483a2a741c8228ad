// The body of POST /api/v1/report.
#pragma once

#include <string_view>

#include "daemon/serve/query_service.h"

namespace laggard::serve {

/// Throws QueryError 400 for a body that is not what docs/api.md says, 422 for too many runs.
ReportAsked parse_report_body(std::string_view body);

}  // namespace laggard::serve
