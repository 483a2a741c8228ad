// The JSON form of what the core computes: docs/api.md names the fields.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/core/compare.h"
#include "daemon/core/report.h"
#include "daemon/core/snapshot.h"

namespace laggard::serve {

using Json = nlohmann::ordered_json;

/// A number as it was measured: null unless it is valid.
Json measured(double value);
/// A computed figure, which may be negative: null unless it is finite.
Json figure(double value);
/// A point in time: null for 0, which stands for never.
Json time_point(core::UnixMs value);
/// Whether a JSON text nests deeper than limits::kMaxJsonDepth, which would exhaust the stack of whoever
/// prints it.
bool is_too_deep(std::string_view text);
/// Reads JSON that somebody else wrote; nothing when it is not JSON or is_too_deep().
std::optional<Json> parse_json(std::string_view text);
/// A text of settings as JSON. Python's NaN and Infinity become texts, since they are no JSON; null when the
/// text is empty or cannot be read.
Json settings_json(std::string_view text);
/// Strict JSON text; bytes that are no UTF-8 are replaced.
std::string dump(const Json& json);

/// null for "", which stands for nothing to say.
Json text_or_null(const std::string& text);

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json to_json(const core::Spread& spread);
Json to_json(const core::LeftOut& left_out);
Json to_json(const core::StageRow& row, std::uint64_t of);
Json to_json(const core::Match& match);
/// Which run, ranks and steps the figures of a report are of.
Json report_identity(const core::RunReport& report);
Json to_json(const core::RunReport& report);
Json to_json(const core::Comparison& comparison);
/// The sentences without which stage rows are misread.
Json reading_notes();
/// StepBrief. `slowest_of_partial` tells that a missing rank may be slower than the one named.
Json step_brief(const core::StepView& view, const core::StageTable& stages);
/// StepDetail without run, attempt and ranks.
Json step_detail(const core::StepView& view, const core::StageTable& stages);
/// One rank's record within a StepDetail. `own_ms` is its own time, kAbsent when that is not known.
Json rank_detail(const RecordView& record, double own_ms);

}  // namespace laggard::serve
