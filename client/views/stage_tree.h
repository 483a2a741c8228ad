// The stages of one step, as the status screen and `step` show them.
#pragma once

#include <string_view>
#include <vector>

#include "client/render/table.h"
#include "client/views/fields.h"

namespace laggard::client {

/// The stages of one clock, each parent before its children; `stages` must outlive the answer.
std::vector<const Json*> in_tree_order(const Json& stages, std::string_view clock);

/// A step's stages on one clock: the slowest rank beside the others, the culprit where it is another one, and
/// what a parent does outside its children. Empty rows when no rank has a stage on this clock.
Table stage_tree(const Json& step, std::string_view clock);

/// The same for programs: every stage of both clocks.
Table stage_rows(const Json& step);

/// Who was slowest and who made the others wait, in sentences.
std::string slowest_text(const Json& step);
std::string culprit_text(const Json& step);
/// The slowest rank of a step, "tie" when its wall says nothing, "-" when there is none.
std::string slowest_name(const Json& step);
/// Why nobody, or the wrong rank, may be named; "" when there is no such reason.
std::string culprit_hint(const Json& step);
/// What to do when none of a job's stages (rows with a member `kind`) is known as sync.
std::string no_sync_hint(const Json& stages);
/// "complete, 4 of 4 ranks", "partial, 3 of 4 ranks, without rank 2".
std::string step_state_text(const Json& step);

Tone step_tone(const Json& state);

}  // namespace laggard::client
