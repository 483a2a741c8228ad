// The JSON form of a verdict.
#pragma once

#include "daemon/core/verdict.h"
#include "daemon/serve/json.h"

namespace laggard::serve {

Json to_json(const core::VerdictView& view, const core::StageTable& stages);

/// What is taken for known of each stage, and who said so.
Json stage_kinds_json(const core::StageTable& stages);

/// Who is held guilty, as one short text: "rank 37", "pp 3", "ranks 16-23", "ranks 3, 17".
std::string straggler_text(const core::Held& held);

}  // namespace laggard::serve
