#include "daemon/serve/query_service.h"

#include <algorithm>
#include <charconv>

#include "daemon/base/limits.h"
#include "daemon/core/breakdown.h"
#include "daemon/serve/query_error.h"
#include "daemon/serve/run_json.h"

namespace laggard::serve {
namespace {

QueryError no_such_run(const std::string& run) {
  return {404, "no_such_run", "there is no run \"" + run + "\"; GET /api/v1/runs lists them"};
}

std::shared_ptr<const core::RunView> find_in(const core::Snapshot& snapshot, const std::string& name) {
  const auto it = std::ranges::lower_bound(snapshot.runs, name, {},
                                           [](const auto& run) -> const std::string& { return run->name; });
  return it != snapshot.runs.end() && (*it)->name == name ? *it : nullptr;
}

/// The attempt of this number, or the newest; a snapshot holds all of a run. QueryError for a run that has
/// only just said Hello.
std::shared_ptr<const core::AttemptView> attempt_in(const core::RunView& run,
                                                    std::optional<std::uint32_t> number) {
  const auto it = number.has_value() ? run.live_attempts.find(*number) : run.live_attempts.end();
  auto attempt = number.has_value() && it != run.live_attempts.end() ? it->second : run.newest;
  if (attempt == nullptr || (number.has_value() && attempt->attempt != *number))
    throw QueryError(404, "no_such_attempt", "run \"" + run.name + "\" has sent nothing yet");
  return attempt;
}

bool is_superseded(const core::RunView& run, std::uint32_t attempt) {
  return !run.attempts.empty() && attempt < run.attempts.back();
}

/// A record's own time in a step: what the breakdown says of the step if it had this record alone.
double own_time(const RecordView& record, const core::StageTable& stages, core::Clock clock) {
  LayoutTable layouts;
  core::StepRecords alone(record.step);
  alone.add(record, layouts.intern(*record.layout));
  const core::StepBreakdown step = core::break_down(alone, layouts, stages);
  return step.clock == clock ? step.own.mean : kAbsent;
}

}  // namespace

std::shared_ptr<const core::Snapshot> QueryService::snapshot() const {
  auto snapshot = collector_.snapshot();
  if (snapshot == nullptr)
    throw QueryError(503, "not_ready", "the collector is still reading its database; ask again in a moment");
  return snapshot;
}

void QueryService::check_cancelled() const {
  if (cancelled_) throw QueryTimeout("the collector is stopping");
}

std::shared_ptr<const core::RunView> QueryService::find_run(const AttemptAsked& asked) const {
  auto run = find_in(*snapshot(), asked.run);
  if (run == nullptr) throw no_such_run(asked.run);
  if (asked.attempt.has_value() && !std::ranges::binary_search(run->attempts, *asked.attempt))
    throw QueryError(404, "no_such_attempt",
                     "run \"" + asked.run + "\" has no attempt " + std::to_string(*asked.attempt));
  return run;
}

Json QueryService::status() const {
  const auto now_seen = snapshot();
  const StorageFacts storage = collector_.storage();
  return {{"version", collector_.version},
          {"collector_id", collector_.collector_id},
          {"ingest", collector_.ingest},
          {"started_unix_ms", collector_.started},
          {"now_unix_ms", now()},
          {"runs", now_seen->runs.size()},
          {"counters", now_seen->ingest},
          {"storage",
           {{"path", storage.path},
            {"bytes", storage.bytes},
            {"wal_bytes", storage.wal_bytes},
            {"free_bytes", storage.free_bytes}}}};
}

Json QueryService::runs() const {
  const auto seen = snapshot();
  Json list = Json::array();
  for (const auto& run : seen->runs)
    list.push_back(run->newest == nullptr ? run_brief(*run)
                                          : run_brief(*run, {.attempt = *run->newest, .now = now()}));
  return {{"runs", std::move(list)}};
}

Json QueryService::run(const AttemptAsked& asked) const {
  const auto run = find_run(asked);
  const auto attempt = attempt_in(*run, asked.attempt);
  const bool superseded = is_superseded(*run, attempt->attempt);
  return run_status(*run, {.attempt = *attempt, .now = now(), .superseded = superseded}, snapshot()->ingest);
}

core::AttemptRow QueryService::stored_attempt(const AttemptAsked& asked, History& history) const {
  check_cancelled();
  find_run(asked);
  auto row = history.attempt(asked.run, asked.attempt);
  if (!row.has_value())
    throw QueryError(404, "no_such_attempt", "nothing of run \"" + asked.run + "\" is stored yet");
  return *row;
}

Json QueryService::ranks(const AttemptAsked& asked, History& history) const {
  const auto run = find_run(asked);
  const core::AttemptRow row = stored_attempt(asked, history);
  const std::vector<core::RankRow> stored = history.ranks(row.id);
  const auto attempt = attempt_in(*run, row.attempt);
  const AttemptNow at{.attempt = *attempt, .now = now(), .superseded = is_superseded(*run, row.attempt)};
  Json list = Json::array();
  for (const core::RankView& rank : attempt->ranks) {
    if (list.size() == limits::kMaxRanksPerAnswer) break;
    Json json = rank_status(at, rank);
    const auto it = std::ranges::lower_bound(stored, rank.rank, {}, &core::RankRow::rank);
    const bool known = it != stored.end() && it->rank == rank.rank;
    json["settings"] = known ? settings_json(it->settings) : Json(nullptr);
    list.push_back(std::move(json));
  }
  return {{"run", asked.run},
          {"attempt", row.attempt},
          {"world_size", row.world_size != 0 ? Json(row.world_size) : Json(nullptr)},
          {"ranks", std::move(list)},
          {"more", attempt->ranks.size() > limits::kMaxRanksPerAnswer}};
}

Json QueryService::steps(const AttemptAsked& asked, const StepsAsked& steps, History& history) const {
  const core::AttemptRow row = stored_attempt(asked, history);
  const core::StageTable stages = history.stages(row.id);
  std::vector<core::StepView> views = history.steps(row.id, steps.window, steps.limit + 1, steps.newest);
  const bool more = views.size() > steps.limit;
  if (more) views.erase(steps.newest ? views.begin() : views.end() - 1);
  Json list = Json::array();
  for (const core::StepView& view : views) list.push_back(step_brief(view, stages));
  return {{"run", asked.run}, {"attempt", row.attempt}, {"steps", std::move(list)}, {"more", more}};
}

Json QueryService::step(const AttemptAsked& asked, Step step, History& history) const {
  const core::AttemptRow row = stored_attempt(asked, history);
  const core::StageTable stages = history.stages(row.id);
  auto view = history.step(row.id, step);
  if (!view.has_value())
    throw QueryError(404, "no_such_step",
                     "run \"" + asked.run + "\", attempt " + std::to_string(row.attempt) + ", has no step " +
                         std::to_string(step) + "; GET /api/v1/runs/{run}/steps lists them");
  Json ranks = nullptr;
  bool more = false;
  history.each_step(row.id, {step, step}, [&](const core::StepRecords& records, const LayoutTable& layouts) {
    // others_median and others_max of a stage are not stored: they are made again of the records.
    view->breakdown = core::break_down(records, layouts, stages);
    ranks = Json::array();
    for (const RecordView& record : records.by_rank(layouts)) {
      more = ranks.size() == limits::kMaxRanksPerAnswer;
      if (more) break;
      ranks.push_back(rank_detail(record, own_time(record, stages, view->breakdown.clock)));
    }
    return false;
  });
  Json json = {{"run", asked.run}, {"attempt", row.attempt}};
  json.update(step_detail(*view, stages));
  json["ranks"] = std::move(ranks);
  json["more"] = more;
  return json;
}

Json QueryService::close_run(const std::string& run) const {
  find_run({.run = run, .attempt = std::nullopt});
  collector_.close(run);
  return {{"run", run}, {"state", core::name_of(core::RunState::ended)}};
}

}  // namespace laggard::serve
