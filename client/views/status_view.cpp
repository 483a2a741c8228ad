#include <algorithm>
#include <optional>

#include "client/render/number.h"
#include "client/render/sparkline.h"
#include "client/views/run_state.h"
#include "client/views/stage_tree.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

constexpr std::size_t kSilentListed = 16;
constexpr std::size_t kRangesListed = 4;
constexpr std::size_t kLabelWidth = 12;
// Without news for so many usual steps, and so long, a job may hang; that it has stalled is said later.
constexpr double kQuietSteps = 3, kQuietMs = 5000;

std::string step_time(double ms) { return ms < 1000 ? fixed(ms, 1) + " ms" : fixed(ms / 1000, 1) + " s"; }

void add_headline(Facts& facts, const Json& status) {
  const std::string state = text(at(status, "state"));
  std::string line = text(at(status, "run")) + " " + state;
  if (truth(at(status, "closed"))) line += " (closed by hand)";
  const Json& attempts = at(status, "attempts");
  if (attempts.is_array() && attempts.size() > 1) {
    line += " | attempt " + text(at(status, "attempt")) + " of " + std::to_string(attempts.size());
  }
  line += " | " + text(at(status, "reporting")) + " of " + text(at(status, "expected")) + " ranks reporting";
  const auto ms = integer(at(status, "age_ms"));
  if (ms) line += " | last record " + age(*ms) + " ago";
  facts.push_back({"run", line, run_tone(state)});
  const auto step_ms = number(at(status, "median_wall_ms"));
  if (state == "running" && ms && step_ms &&
      static_cast<double>(*ms) > std::max(kQuietMs, kQuietSteps * *step_ms))
    facts.push_back(
        {"", "nothing has come for so long, where a step takes " + step_time(*step_ms), Tone::warn});
}

void add_other_attempts(Facts& facts, const Json& status) {
  const Json& others = at(status, "other_attempts");
  const auto shown = integer(at(status, "attempt"));
  if (!others.is_array()) return;
  for (const Json& other : others) {
    const auto number = integer(at(other, "attempt"));
    if (!number) continue;
    facts.push_back({"",
                     "attempt " + std::to_string(*number) + " is " +
                         (shown && *number < *shown ? "still " : "") + "receiving (" +
                         counted(integer(at(other, "reporting")).value_or(0), "rank") + "): laggard status " +
                         text(at(status, "run")) + "@" + std::to_string(*number),
                     Tone::warn});
  }
}

void add_verdict(Facts& facts, const Json& status) {
  const Json& verdict = at(status, "verdict");
  if (verdict.is_null()) return;
  std::string line = text(at(verdict, "sentence"));
  if (const auto from = integer(at(verdict, "from")))
    line += ", over steps " + std::to_string(*from) + " to " + text(at(verdict, "to"));
  facts.push_back({"verdict", line, verdict_tone(verdict)});
}

void add_newest(Facts& facts, const Json& status) {
  const Json& newest = at(status, "newest");
  if (newest.is_null()) {
    facts.push_back({"newest", "no step yet"});
    return;
  }
  std::string line = "step " + text(at(newest, "step")) + " " + text(at(newest, "state")) + ", " +
                     text(at(newest, "present")) + " of " + text(at(newest, "expected")) + " ranks";
  const Json& waiting = at(status, "waiting_for");
  if (waiting.is_array() && !waiting.empty()) {
    line += (text(at(newest, "state")) == "open" ? ", waiting for " : ", without ") +
            ranks_text(waiting, integer(at(newest, "missing_count")));
  }
  facts.push_back({"newest", line, step_tone(at(newest, "state"))});
}

void add_settled(Facts& facts, const Json& settled) {
  if (settled.is_null()) {
    facts.push_back({"step", "none is complete yet"});
    return;
  }
  facts.push_back(
      {"step", text(at(settled, "step")) + " " + step_state_text(settled), step_tone(at(settled, "state"))});
  facts.push_back({"slowest", slowest_text(settled)});
  facts.push_back(
      {"culprit", culprit_text(settled), at(settled, "culprit").is_null() ? Tone::plain : Tone::strong});
  if (const std::string hint = culprit_hint(settled); !hint.empty()) facts.push_back({"", hint, Tone::warn});
  if (const auto n = integer(at(settled, "invalid_values")); n && *n > 0) {
    facts.push_back({"invalid",
                     counted(*n, "value") + " of this step cannot be used (negative, not finite or text)",
                     Tone::warn});
  }
}

void add_silent(Facts& facts, const Json& status) {
  const Json& silent = at(status, "silent_ranks");
  if (!silent.is_array()) return;
  const std::size_t shown = std::min(silent.size(), kSilentListed);
  for (std::size_t i = 0; i < shown; ++i) {
    const Json& rank = silent[i];
    std::string line = "rank " + text(at(rank, "rank"));
    if (const std::string host = text(at(rank, "host")); !host.empty()) line += " on " + host;
    const Json& reported = at(rank, "reported");
    if (reported.is_boolean() && !truth(reported)) {
      line += ": never reported";
    } else {
      line += ": last step " + text(at(rank, "last_step"));
      if (const auto ms = integer(at(rank, "age_ms"))) line += ", " + age(*ms) + " ago";
    }
    facts.push_back({i == 0 ? "silent" : "", line, Tone::bad});
  }
  // The collector lists only so many, and counts them all.
  const std::int64_t more = integer(at(status, "silent")).value_or(0) - static_cast<std::int64_t>(shown);
  if (more > 0) {
    facts.push_back({"", "and " + std::to_string(more) + " more (laggard ranks)", Tone::bad});
  }
}

void add_walls(Facts& facts, const Json& status, std::size_t width) {
  const Json& history = at(status, "history");
  if (!history.is_array() || history.empty()) return;
  const std::size_t room = width > kLabelWidth + 10 ? width - kLabelWidth : 10;
  std::vector<std::optional<double>> walls;
  for (const Json& point : history) walls.push_back(number(at(point, "wall_max_ms")));
  const std::size_t shown = std::min(room, walls.size());
  facts.push_back({"walls", sparkline(walls, shown)});
  std::optional<double> low, high;
  for (std::size_t i = walls.size() - shown; i < walls.size(); ++i) {
    if (!walls[i]) continue;
    low = std::min(low.value_or(*walls[i]), *walls[i]);
    high = std::max(high.value_or(*walls[i]), *walls[i]);
  }
  if (!low) return;
  std::string line = fixed(*low, 1) + " to " + fixed(*high, 1) + " ms over steps " +
                     text(at(history[walls.size() - shown], "step")) + " to " +
                     text(at(history.back(), "step"));
  if (const auto median = number(at(status, "median_wall_ms")))
    line += ", median " + fixed(*median, 1) + " ms";
  facts.push_back({"", line});
}

// "stored 80, duplicate 0": the members of an object of counts, in its own order.
std::string counts_text(const Json& counts) {
  std::string out;
  if (!counts.is_object()) return out;
  for (const auto& [name, n] : counts.items()) out += (out.empty() ? "" : ", ") + name + " " + text(n);
  return out;
}

bool any_above_zero(const Json& counts, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    const auto n = integer(at(counts, name));
    return n && *n > 0;
  });
}

void add_counters(Facts& facts, const Json& status) {
  const Json& delivery = at(status, "delivery");
  const bool lost = any_above_zero(delivery, {"conflict", "rejected", "dropped", "invalid_values"});
  facts.push_back({"steps", counts_text(at(status, "steps_by_state"))});
  facts.push_back({"delivery", counts_text(delivery), lost ? Tone::warn : Tone::plain});
  const Json& lines = at(status, "lines");
  if (!lines.is_null()) {
    facts.push_back(
        {"lines", counts_text(lines), any_above_zero(lines, {"rejected"}) ? Tone::warn : Tone::plain});
  }
  std::string collector;
  const Json& counters = at(status, "counters");
  if (counters.is_object()) {
    for (const auto& [name, n] : counters.items()) {
      if (const auto count = integer(n); count && *count > 0) {
        collector += (collector.empty() ? "" : ", ") + name + " " + text(n);
      }
    }
  }
  if (!collector.empty()) facts.push_back({"collector", collector});
}

// How far back each level of what is stored reaches.
void add_kept(Facts& facts, const Json& status) {
  const Json& kept = at(status, "kept");
  if (!kept.is_object()) return;
  const Json &records = at(kept, "records_from"), &summaries = at(kept, "summaries_from");
  if (records.is_null()) {
    facts.push_back({"kept", "every step, with the records of its ranks"});
    return;
  }
  facts.push_back({"kept", (summaries.is_null() ? "every step" : "steps from " + text(summaries) + " on") +
                               ", with the records of its ranks from step " + text(records) + " on"});
}

void add_storage(Facts& facts, const Json& status) {
  const Json& storage = at(status, "storage");
  const std::string problem = text(at(storage, "problem"));
  if (problem.empty()) return;
  std::string waiting;
  if (const auto ms = integer(at(storage, "waiting_ms")); ms && *ms > 0) waiting = "for " + age(*ms) + ": ";
  facts.push_back({"storage",
                   "nothing could be written " + waiting + problem +
                       "; agents keep what is not stored, and no record is lost",
                   Tone::bad});
}

void add_losses(Facts& facts, const Json& status) {
  const Json& losses = at(status, "losses");
  if (!losses.is_array()) return;
  for (const Json& loss : losses) {
    std::string numbers;
    const Json& ranges = at(loss, "ranges");
    const std::size_t first = ranges.size() > kRangesListed ? ranges.size() - kRangesListed : 0;
    for (std::size_t i = first; i < ranges.size(); ++i)
      numbers += (numbers.empty() ? "" : ", ") + text(at(ranges[i], "first_seq")) + " to " +
                 text(at(ranges[i], "last_seq"));
    facts.push_back({"lost",
                     "rank " + text(at(loss, "rank")) + ": " +
                         counted(integer(at(loss, "dropped")).value_or(0), "item") + " of " +
                         text(at(loss, "host")) + ":" + text(at(loss, "origin")) +
                         (first > 0 ? ", the newest by number " : ", by number ") + numbers,
                     Tone::bad});
  }
  const Json& more = at(status, "unlisted_losses");
  if (const auto sources = integer(at(more, "sources")); sources && *sources > 0)
    facts.push_back({"lost",
                     "and " + counted(*sources, "more source") + ": " +
                         counted(integer(at(more, "dropped")).value_or(0), "item"),
                     Tone::bad});
}

void add_warnings(Facts& facts, const Json& status) {
  const Json& clashes = at(status, "clashes");
  if (clashes.is_array()) {
    for (const Json& clash : clashes) {
      std::string sources;
      for (const Json& source : at(clash, "sources"))
        sources +=
            (sources.empty() ? "" : " and ") + text(at(source, "host")) + ":" + text(at(source, "origin"));
      facts.push_back({"clash",
                       "rank " + text(at(clash, "rank")) + " came from two sources at the same time: " +
                           sources + "; nothing of either is lost",
                       Tone::bad});
    }
  }
  const Json& warnings = at(status, "warnings");
  if (warnings.is_array()) {
    for (const Json& warning : warnings) facts.push_back({"warning", text(warning), Tone::warn});
  }
}

void add_stages(View& view, const Json& settled, std::string_view clock) {
  Table tree = stage_tree(settled, clock);
  if (!tree.rows.empty()) view.screen.emplace_back(std::move(tree));
}

// Whether a step has a stage of this name on this clock; true for no name.
bool has_stage(const Json& settled, std::string_view clock, const std::string& name) {
  const Json& stages = at(settled, "stages");
  return name.empty() || !stages.is_array() ||
         std::any_of(stages.begin(), stages.end(), [&](const Json& stage) {
           return text(at(stage, "clock")) == clock && text(at(stage, "stage")) == name;
         });
}

}  // namespace

View status_view(const Json& status, std::size_t width) {
  const Json& settled = at(status, "settled");
  Facts head, foot;
  add_headline(head, status);
  add_verdict(head, status);
  add_other_attempts(head, status);
  add_newest(head, status);
  add_settled(head, settled);
  add_silent(head, status);
  add_storage(head, status);
  add_losses(head, status);
  add_warnings(head, status);
  add_walls(foot, status, width);
  add_kept(foot, status);
  add_counters(foot, status);
  View view{{head}, stage_rows(settled), status};
  const std::string clock = text(at(settled, "clock"));
  add_stages(view, settled, clock.empty() ? "stream" : clock);
  // Input can be known on the host alone, and be what the culprit is blamed for.
  if (clock != "host" && !has_stage(settled, clock, text(at(at(settled, "culprit"), "stage"))))
    add_stages(view, settled, "host");
  view.screen.emplace_back(foot);
  return view;
}

std::string step_line(const Json& event) {
  const auto wall = number(at(event, "wall_max_ms"));
  const Json& culprit = at(event, "culprit_rank");
  return "step " + text(at(event, "step")) + "  " + text(at(event, "state")) + "  " +
         text(at(event, "present")) + "/" + text(at(event, "expected")) + " ranks  wall " +
         (wall ? fixed(*wall, 3) + " ms" : "-") + "  slowest rank " + slowest_name(event) +
         "  culprit rank " + (culprit.is_null() ? "-" : text(culprit));
}

}  // namespace laggard::client
