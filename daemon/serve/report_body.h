// The bodies of POST /api/v1/report and POST /api/v1/compare.
#pragma once

#include <string_view>

#include "daemon/serve/query_service.h"

namespace laggard::serve {

/// Both throw QueryError 400 for a body that is not what docs/api.md says, 422 for too many runs.
ReportAsked parse_report_body(std::string_view body);
CompareAsked parse_compare_body(std::string_view body);

}  // namespace laggard::serve
