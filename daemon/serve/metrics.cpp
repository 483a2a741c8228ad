#include "daemon/serve/metrics.h"

#include <map>
#include <unordered_set>
#include <vector>

#include "daemon/base/limits.h"
#include "daemon/base/value.h"
#include "daemon/serve/metrics_text.h"
#include "daemon/serve/run_json.h"
#include "daemon/serve/verdict_json.h"

namespace laggard::serve {
namespace {

using Family = MetricsText::Family;

/// For how long a run that is lost has series, from then on. The alert on a dead job must outlast a night;
/// one whose job is over without an `end` must not stay for ever.
constexpr core::UnixMs kLostSeriesMs = core::UnixMs{24} * 60 * 60'000;

double seconds(double ms) { return ms / 1000; }
double seconds(core::UnixMs ms) { return static_cast<double>(ms) / 1000; }

/// The families that have a sample for each run, in the order of the page.
struct RunFamilies {
  explicit RunFamilies(MetricsText& page)
      : info(page.gauge("laggard_run_info", "Facts of a run; always 1.")),
        state(page.gauge("laggard_run_state", "1 for the state the run is in, else 0.")),
        wall(page.gauge("laggard_step_wall_seconds",
                        "Wall time of the newest complete or partial step over its ranks.")),
        stage(
            page.gauge("laggard_stage_seconds",
                       "Time of a stage in the newest complete or partial step over its ranks. Stages nest: "
                       "do not add them up.")),
        slowest(page.gauge("laggard_slowest_rank",
                           "Rank with the largest wall time in that step; no sample when the ranks tie.")),
        culprit(page.gauge("laggard_culprit_rank",
                           "Rank that holds the others back in that step; no sample when nobody does.")),
        verdict(page.gauge("laggard_verdict",
                           "1 for the verdict over the newest steps, by its kind; no sample without one.")),
        slowdown(page.gauge("laggard_slowdown_ratio",
                            "Mean step over the step of a job with even ranks, over the newest steps.")),
        lost(page.gauge("laggard_step_lost_seconds",
                        "What uneven ranks cost per step: mean of the largest own time less the mean one.")),
        straggler(page.gauge("laggard_straggler_excess_seconds",
                             "Time per step that the ranks held guilty take longer, in that stage or (\"\") "
                             "in several; no sample "
                             "when nobody is.")),
        settled_step(page.gauge("laggard_settled_step", "Number of that step.")),
        last_step(page.gauge("laggard_last_step", "Largest step number any rank has sent.")),
        last_record(page.gauge("laggard_last_record_timestamp_seconds",
                               "When the newest record came, by the collector's clock.")),
        expected(page.gauge("laggard_ranks_expected", "Ranks that the world size makes expected.")),
        reporting(page.gauge("laggard_ranks_reporting",
                             "Ranks that have sent a record and are not silent; those that ended count.")),
        silent(page.gauge("laggard_ranks_silent", "Expected ranks that should have sent by now.")),
        missing(page.gauge("laggard_ranks_missing",
                           "Expected ranks without a record in the newest complete "
                           "or partial step.")),
        steps(page.gauge("laggard_steps", "Steps of the attempt by state.")),
        records(page.counter("laggard_records_total", "What became of what the run's agents sent.")),
        late(page.counter("laggard_records_late_total", "Stored records of a step lower than the newest.")),
        lines(page.counter("laggard_lines_total", "What became of the lines the run's agents have read.")),
        pending(page.gauge("laggard_lines_pending", "Unfinished last lines of followed files.")),
        invalid(
            page.counter("laggard_invalid_values_total",
                         "Values that were negative, not finite or a text, and left out of all figures.")),
        clashes(page.gauge("laggard_rank_clashes", "Ranks that two sources sent at the same time.")) {}
  Family &info, &state, &wall, &stage, &slowest, &culprit, &verdict, &slowdown, &lost, &straggler,
      &settled_step, &last_step, &last_record, &expected, &reporting, &silent, &missing, &steps, &records,
      &late, &lines, &pending, &invalid, &clashes;
};

/// The families that have a sample for each rank.
struct RankFamilies {
  explicit RankFamilies(MetricsText& page)
      : wall(page.gauge("laggard_rank_wall_seconds",
                        "Wall time of the rank's newest step; no sample of a silent or ended rank.")),
        last_step(page.gauge("laggard_rank_last_step",
                             "Newest step of the rank; no sample of a silent or ended rank.")),
        silent(page.gauge("laggard_rank_silent", "1 for a rank that should have sent by now, else 0.")) {}
  Family &wall, &last_step, &silent;
};

/// What the page has still room for; what it has not is counted.
struct Room {
  explicit Room(Counters& all_counters) : counters(all_counters) {}
  /// False when there is none for the series of this run.
  bool take(const std::string& run) {
    if (!is_label_text(run)) {
      ++counters.series_dropped_names;
      return false;
    }
    if (runs == 0) {
      ++counters.series_dropped_runs;
      return false;
    }
    --runs;
    return true;
  }

  Counters& counters;
  std::size_t runs = limits::kMaxMetricRuns;
  std::size_t stages = limits::kMaxMetricStagesOfAllRuns;
  std::size_t ranks = limits::kMaxMetricRanks;
};

void add_spread(Family& family, std::string_view run, const core::Spread& wall) {
  if (wall.present == 0) return;
  family.add({{"run", run}, {"stat", "max"}}, seconds(wall.max));
  family.add({{"run", run}, {"stat", "median"}}, seconds(wall.median));
}

void add_stages(Family& family, std::string_view run, const core::StepBreakdown& step,
                const core::StageTable& stages, Room& room) {
  std::unordered_set<core::StageId> named;
  for (const core::StageBreakdown& row : step.stages) {
    if (row.spread.present == 0 || row.stage >= stages.size()) continue;
    const std::string& name = stages[row.stage].name;
    if (!is_label_text(name)) {
      room.counters.series_dropped_names += 2;
      continue;
    }
    if (!named.contains(row.stage)) {
      if (named.size() == limits::kMaxMetricStages || room.stages == 0) {
        room.counters.series_dropped_stages += 2;
        continue;
      }
      named.insert(row.stage);
      --room.stages;
    }
    const std::string_view clock = core::name_of(row.clock);
    family.add({{"run", run}, {"stage", name}, {"clock", clock}, {"stat", "max"}}, seconds(row.spread.max));
    family.add({{"run", run}, {"stage", name}, {"clock", clock}, {"stat", "median"}},
               seconds(row.spread.median));
  }
}

void add_settled(RunFamilies& families, std::string_view run, const core::AttemptView& attempt, Room& room) {
  if (attempt.settled == nullptr) return;
  const core::StepBreakdown& step = attempt.settled->breakdown;
  families.settled_step.add({{"run", run}}, step.step);
  families.missing.add({{"run", run}}, attempt.settled->missing_count);
  add_spread(families.wall, run, step.wall);
  if (attempt.stages != nullptr) add_stages(families.stage, run, step, *attempt.stages, room);
  if (step.slowest.has_value() && !step.near_tie) families.slowest.add({{"run", run}}, *step.slowest);
  if (step.culprit.has_value()) families.culprit.add({{"run", run}}, step.culprit->rank);
}

void add_verdict(RunFamilies& families, std::string_view run, const core::AttemptView& attempt, Room& room) {
  if (attempt.verdict == nullptr) return;
  const core::Verdict& verdict = attempt.verdict->verdict;
  if (verdict.kind == core::VerdictKind::unknown) return;
  families.verdict.add({{"run", run}, {"verdict", core::name_of(verdict.kind)}}, 1U);
  families.slowdown.add({{"run", run}}, verdict.slowdown);
  families.lost.add({{"run", run}}, seconds(verdict.lost_ms));
  if (!verdict.held.has_value() || verdict.held->until.has_value()) return;
  const core::Held& held = *verdict.held;
  const bool by_stage =
      held.is_one_stage() && attempt.stages != nullptr && held.stage < attempt.stages->size();
  const std::string stage = by_stage ? (*attempt.stages)[held.stage].name : "";
  const std::string who = straggler_text(held);
  if (!is_label_text(stage) || !is_label_text(who)) {
    ++room.counters.series_dropped_names;
    return;
  }
  families.straggler.add({{"run", run}, {"straggler", who}, {"stage", stage}},
                         seconds(by_stage ? held.stage_excess_ms : held.excess_ms));
}

void add_delivery(RunFamilies& families, std::string_view run, const core::AttemptView& attempt) {
  const core::DeliveryCounts& counts = attempt.counts;
  families.records.add({{"run", run}, {"result", "stored"}}, counts.stored);
  families.records.add({{"run", run}, {"result", "duplicate"}}, counts.duplicate);
  families.records.add({{"run", run}, {"result", "conflict"}}, counts.conflict);
  families.records.add({{"run", run}, {"result", "rejected"}}, counts.rejected);
  families.records.add({{"run", run}, {"result", "dropped"}}, counts.dropped);
  families.late.add({{"run", run}}, counts.late);
  if (attempt.lines.has_value()) {
    families.lines.add({{"run", run}, {"result", "accepted"}}, attempt.lines->accepted);
    families.lines.add({{"run", run}, {"result", "foreign"}}, attempt.lines->foreign);
    families.lines.add({{"run", run}, {"result", "rejected"}}, attempt.lines->rejected);
    families.pending.add({{"run", run}}, attempt.lines->pending_tail);
  }
  families.invalid.add({{"run", run}}, counts.invalid_values);
  families.clashes.add({{"run", run}}, attempt.clashes.size());
}

/// What the alerts on a dead job need, of a lost run too.
void add_state(RunFamilies& families, std::string_view run, core::RunState run_state,
               const RankCounts& ranks) {
  for (const core::RunState state : {core::RunState::running, core::RunState::stalled, core::RunState::lost})
    families.state.add({{"run", run}, {"state", core::name_of(state)}}, run_state == state ? 1U : 0U);
  families.silent.add({{"run", run}}, ranks.silent);
}

void add_run(RunFamilies& families, std::string_view run, core::RunState run_state, const AttemptNow& at,
             Room& room) {
  const core::AttemptView& attempt = at.attempt;
  families.info.add({{"run", run},
                     {"attempt", std::to_string(attempt.attempt)},
                     {"world_size", attempt.world_size != 0 ? std::to_string(attempt.world_size) : ""}},
                    1U);
  const RankCounts ranks = count_ranks(at);
  add_state(families, run, run_state, ranks);
  add_settled(families, run, attempt, room);
  add_verdict(families, run, attempt, room);
  if (attempt.newest_step.has_value()) families.last_step.add({{"run", run}}, *attempt.newest_step);
  if (attempt.last_received != 0) families.last_record.add({{"run", run}}, seconds(attempt.last_received));
  families.expected.add({{"run", run}}, attempt.expected);
  families.reporting.add({{"run", run}}, ranks.reporting);
  for (const core::StepState state : {core::StepState::open, core::StepState::complete,
                                      core::StepState::partial, core::StepState::late_completed}) {
    const auto it = attempt.steps_by_state.find(state);
    families.steps.add({{"run", run}, {"state", core::name_of(state)}},
                       it != attempt.steps_by_state.end() ? it->second : 0U);
  }
  add_delivery(families, run, attempt);
}

void add_ranks(RankFamilies& families, std::string_view run, const AttemptNow& at, Room& room) {
  for (const core::RankView& rank : at.attempt.ranks) {
    if (rank.ended || rank.finished) continue;
    if (room.ranks == 0) {
      room.counters.series_dropped_ranks += 3;
      continue;
    }
    --room.ranks;
    const std::string number = std::to_string(rank.rank);
    const bool silent = core::is_silent(at.attempt, rank, at.heard_until);
    families.silent.add({{"run", run}, {"rank", number}}, silent ? 1U : 0U);
    if (silent || !rank.reported) continue;
    families.last_step.add({{"run", run}, {"rank", number}}, rank.last_step);
    if (is_valid(rank.last_wall_ms))
      families.wall.add({{"run", run}, {"rank", number}}, seconds(rank.last_wall_ms));
  }
}

void add_http(MetricsText& page, const Counters& counters) {
  Family& answers = page.counter("laggard_http_requests_total", "HTTP requests answered, by status.");
  for (std::size_t status = 0; status < counters.answers.size(); ++status)
    if (const std::uint64_t n = counters.answers[status]; n > 0)
      answers.add({{"code", std::to_string(status)}}, n);
  page.counter("laggard_http_requests_broken_total", "Requests that were no HTTP, or not finished in time.")
      .add({}, counters.requests_broken.load());
  page.gauge("laggard_http_connections", "Open HTTP connections.").add({}, counters.connections.load());
  page.counter("laggard_http_handshakes_failed_total",
               "TLS handshakes that failed, or were not finished in time.")
      .add({}, counters.handshakes_failed.load());
  page.counter("laggard_http_connections_refused_total", "Connections refused because too many were open.")
      .add({}, counters.connections_refused.load());
  page.counter("laggard_http_connections_unaccepted_total",
               "Connections that could not be accepted, for want of descriptors mostly.")
      .add({}, counters.connections_unaccepted.load());
  page.gauge("laggard_event_clients", "Clients that read the event stream.")
      .add({}, counters.event_clients.load());
  page.counter("laggard_event_clients_refused_total", "Clients of the event stream that were too many.")
      .add({}, counters.event_clients_refused.load());
  page.counter("laggard_event_clients_dropped_total",
               "Clients of the event stream that did not read in time.")
      .add({}, counters.event_clients_dropped.load());
  page.counter("laggard_events_sent_total", "Events sent, over all clients.")
      .add({}, counters.events_sent.load());
  Family& dropped = page.counter("laggard_series_dropped_total",
                                 "Series left out of this page, summed over scrapes, by what was too much.");
  dropped.add({{"reason", "runs"}}, counters.series_dropped_runs.load());
  dropped.add({{"reason", "stages"}}, counters.series_dropped_stages.load());
  dropped.add({{"reason", "ranks"}}, counters.series_dropped_ranks.load());
  dropped.add({{"reason", "name"}}, counters.series_dropped_names.load());
}

void add_collector(MetricsText& page, const QueryService& service, const core::Snapshot& snapshot) {
  const Collector& collector = service.collector();
  page.gauge("laggard_build_info", "The collector's version; always 1.")
      .add({{"version", collector.version}}, 1U);
  page.gauge("laggard_start_time_seconds", "When the collector was started.")
      .add({}, seconds(collector.started));
  const StorageFacts storage = collector.storage();
  Family& bytes = page.gauge("laggard_storage_bytes", "Size of the database and of its write-ahead log.");
  bytes.add({{"part", "database"}}, storage.bytes);
  bytes.add({{"part", "wal"}}, storage.wal_bytes);
  page.gauge("laggard_storage_free_bytes", "Free space on the database's file system.")
      .add({}, storage.free_bytes);
  page.gauge("laggard_storage_unstored_items", "Items taken from agents that are not durable yet.")
      .add({}, snapshot.storage.unstored);
  page.gauge("laggard_storage_waiting_seconds",
             "For how long the oldest item that is not durable may have been waiting.")
      .add({}, seconds(snapshot.storage.waiting_ms));
  Family& ingest = page.counter("laggard_ingest_events_total",
                                "Losses and refusals that belong to no run, by what happened.");
  for (const auto& [event, n] : snapshot.ingest)
    if (is_label_text(event)) ingest.add({{"event", event}}, n);
}

}  // namespace

std::string metrics_page(const QueryService& service, Counters& counters, bool ranks) {
  const auto snapshot = service.snapshot();
  const core::Moment moment = core::moment_of(*snapshot, service.now());
  MetricsText page;
  add_collector(page, service, *snapshot);
  std::map<core::RunState, std::uint64_t> by_state;
  Family& runs = page.gauge("laggard_runs", "Runs by state.");
  RunFamilies run_families(page);
  RankFamilies rank_families(page);
  Room room(counters);
  std::vector<const core::RunView*> lost;
  for (const auto& run : snapshot->runs) {
    if (run->newest == nullptr) continue;
    const core::RunState state = core::state_at(*run->newest, run->closed, moment.heard_until);
    ++by_state[state];
    if (run->closed || state == core::RunState::ended) continue;
    if (state == core::RunState::lost) {
      lost.push_back(run.get());
      continue;
    }
    if (!room.take(run->name)) continue;
    const AttemptNow at = attempt_now(*run, *run->newest, moment);
    add_run(run_families, run->name, state, at, room);
    if (ranks) add_ranks(rank_families, run->name, at, room);
  }
  // After the others: a run that goes on must not lose its room to one that is lost.
  for (const core::RunView* run : lost) {
    const core::AttemptView& newest = *run->newest;
    if (moment.heard_until - newest.last_received > newest.lost_after_ms + kLostSeriesMs) continue;
    if (room.take(run->name))
      add_state(run_families, run->name, core::RunState::lost,
                count_ranks(attempt_now(*run, newest, moment)));
  }
  for (const core::RunState state :
       {core::RunState::running, core::RunState::stalled, core::RunState::lost, core::RunState::ended})
    runs.add({{"state", core::name_of(state)}}, by_state[state]);
  add_http(page, counters);
  return page.text();
}

}  // namespace laggard::serve
