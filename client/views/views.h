// What the collector's answers look like. Each function takes the JSON of docs/api.md.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/render/view.h"
#include "client/views/fields.h"

namespace laggard::client {

View runs_view(const Json& runs);
/// The status screen of one run; `width` columns are there for the line of step walls.
View status_view(const Json& status, std::size_t width);
/// `stage_order` is the profile's: those rows make the published table, all others one of their own.
View report_view(const Json& report, const std::vector<std::string>& stage_order);
/// `fail_on`: what came of --fail-on, "" without it.
View compare_view(const Json& comparison, const std::string& fail_on);
/// The order in which to make so many runs a side.
View plan_view(std::size_t runs);
View steps_view(const Json& steps);
View step_view(const Json& step);
View ranks_view(const Json& ranks);
View stages_view(const Json& stages);
/// The verdict on a run of a report.
View verdict_view(const Json& run);
Tone verdict_tone(const Json& verdict);

/// Which steps a run's figures in a report are of, and which were left out.
std::string report_window_text(const Json& run);

/// Whether the runs did the same work, and the first difference of each kind.
Facts match_line(const Json& match);
Facts mismatch_facts(const Json& match);

/// One line about one step, from an event.
std::string step_line(const Json& event);

/// Every figure of a report as one row each: run, what it is, value.
Table report_rows(const Json& report);
/// Every figure of a comparison as one row each, with what came of the match check.
Table compare_rows(const Json& comparison);

}  // namespace laggard::client
