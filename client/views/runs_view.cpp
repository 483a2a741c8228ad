#include "client/views/run_state.h"
#include "client/views/views.h"

namespace laggard::client {

Tone run_tone(const std::string& state) {
  if (state == "running") return Tone::good;
  if (state == "stalled") return Tone::warn;
  return state == "lost" ? Tone::bad : Tone::dim;
}

View runs_view(const Json& runs) {
  Table table{"",
              {{"run", "run", Align::left},
               {"state", "state", Align::left},
               {"attempt", "attempt"},
               {"attempts", "attempts", Align::right, Show::wide},
               {"world_size", "world size", Align::right, Show::programs},
               {"expected", "ranks"},
               {"reporting", "reporting"},
               {"silent", "silent"},
               {"last_step", "last step"},
               {"last_step_state", "its state", Align::left, Show::wide},
               {"age", "age", Align::right, Show::people},
               {"age_ms", "age ms", Align::right, Show::programs},
               {"first_received_unix_ms", "first", Align::right, Show::programs},
               {"last_received_unix_ms", "last", Align::right, Show::programs}},
              {}};
  const Json& list = at(runs, "runs");
  if (list.is_array()) {
    for (const Json& run : list) {
      const std::string state = text(at(run, "state"));
      const Json& attempts = at(run, "attempts");
      Cell silent = integer_cell(at(run, "silent"));
      if (const auto n = integer(at(run, "silent")); n && *n > 0) silent.tone = Tone::warn;
      table.rows.push_back({text_cell(at(run, "run")), state.empty() ? Cell() : Cell(state, run_tone(state)),
                            integer_cell(at(run, "attempt")),
                            attempts.is_array() ? Cell(static_cast<std::int64_t>(attempts.size())) : Cell(),
                            integer_cell(at(run, "world_size")), integer_cell(at(run, "expected")),
                            integer_cell(at(run, "reporting")), silent, integer_cell(at(run, "last_step")),
                            text_cell(at(run, "last_step_state")), age_cell(at(run, "age_ms")),
                            integer_cell(at(run, "age_ms")), integer_cell(at(run, "first_received_unix_ms")),
                            integer_cell(at(run, "last_received_unix_ms"))});
    }
  }
  return {{table}, table, runs};
}

}  // namespace laggard::client
