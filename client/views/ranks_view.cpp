#include "client/views/views.h"

namespace laggard::client {
namespace {

Tone rank_tone(const std::string& state) {
  if (state == "live") return Tone::good;
  return state == "ended" ? Tone::dim : Tone::bad;
}

}  // namespace

View ranks_view(const Json& ranks) {
  Table table{"",
              {{"rank", "rank"},
               {"state", "state", Align::left},
               {"last_step", "last step"},
               {"age", "age", Align::right, Show::people},
               {"age_ms", "age ms", Align::right, Show::programs},
               {"last_received_unix_ms", "last", Align::right, Show::programs},
               {"last_wall_ms", "last wall ms"},
               {"records", "records"},
               {"host", "host", Align::left}},
              {}};
  const Json& list = at(ranks, "ranks");
  if (list.is_array()) {
    for (const Json& rank : list) {
      const std::string state = text(at(rank, "state"));
      table.rows.push_back({integer_cell(at(rank, "rank")), Cell(state, rank_tone(state)),
                            integer_cell(at(rank, "last_step")), age_cell(at(rank, "age_ms")),
                            integer_cell(at(rank, "age_ms")), integer_cell(at(rank, "last_received_unix_ms")),
                            real_cell(at(rank, "last_wall_ms"), 3), integer_cell(at(rank, "records")),
                            text_cell(at(rank, "host"))});
    }
  }
  Notes notes;
  if (truth(at(ranks, "more"))) {
    const std::string world = text(at(ranks, "world_size"));
    notes.lines.push_back("there are more ranks than are listed" +
                          (world.empty() ? "" : ": the world size is " + world));
  }
  return {{table, notes}, table, ranks};
}

}  // namespace laggard::client
