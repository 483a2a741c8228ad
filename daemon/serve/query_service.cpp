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
  return {404, "no_such_run", "there is no run \"" + run + "\"", "GET /api/v1/runs lists them"};
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
    throw QueryError(404, "nothing_yet", "run \"" + run.name + "\" has sent nothing yet");
  return attempt;
}

/// The step as it stands in memory: the newest one and the newest settled one are there before they are
/// stored.
std::shared_ptr<const core::StepView> live_step(const core::AttemptView& attempt, Step step) {
  for (const auto& view : {attempt.settled, attempt.newest})
    if (view != nullptr && view->breakdown.step == step) return view;
  return nullptr;
}

bool is_newer(const core::StepView& live, const core::StepView& stored) {
  const bool settled_since = stored.state == core::StepState::open && live.state != core::StepState::open;
  return live.breakdown.present > stored.breakdown.present || settled_since;
}

/// The stages by their ids, which are the same in memory and in storage; either may be the newer one.
core::StageTable all_stages(const core::AttemptView& attempt, core::StageTable stored) {
  if (attempt.stages == nullptr || attempt.stages->size() < stored.size()) return stored;
  return *attempt.stages;
}

std::uint64_t count_steps(const core::AttemptView& attempt) {
  std::uint64_t steps = 0;
  for (const auto& [state, n] : attempt.steps_by_state) steps += n;
  return steps;
}

/// The newest settled and the newest step, ascending, as far as every step between the last stored one and
/// them is known: whoever goes on behind the last step of an answer must not lose one that comes later.
std::vector<std::shared_ptr<const core::StepView>> live_steps(const core::AttemptView& attempt,
                                                              std::optional<Step> last_stored) {
  std::vector<std::shared_ptr<const core::StepView>> live;
  for (const auto& view : {attempt.settled, attempt.newest}) {
    if (view == nullptr) continue;
    if (!live.empty() && live.back()->breakdown.step == view->breakdown.step) live.pop_back();
    live.push_back(view);
  }
  if (!last_stored.has_value()) {
    if (live.size() < count_steps(attempt)) live.clear();
    return live;
  }
  std::erase_if(live, [&](const auto& view) {
    const Step step = view->breakdown.step;
    const bool gap = step > *last_stored && step - 1 > *last_stored;
    if (!gap) last_stored = std::max(*last_stored, step);
    return gap;
  });
  return live;
}

/// Puts what memory knows better than storage into stored steps of the window, which are ascending.
void add_live_steps(const std::vector<std::shared_ptr<const core::StepView>>& live_views,
                    const core::Window& window, std::vector<core::StepView>& views) {
  for (const auto& live : live_views) {
    const Step step = live->breakdown.step;
    if (step < window.from.value_or(step) || step > window.to.value_or(step)) continue;
    const auto it = std::ranges::lower_bound(views, step, {},
                                             [](const core::StepView& view) { return view.breakdown.step; });
    if (it == views.end() || it->breakdown.step != step)
      views.insert(it, *live);
    else if (is_newer(*live, *it))
      *it = *live;
  }
}

/// The records were read after the summary: those that came in between are no longer missing.
void take_missing_from(const core::StepRecords& records, core::StepView& view) {
  std::erase_if(view.missing, [&](Rank rank) { return records.contains(rank); });
  const auto present = static_cast<std::uint32_t>(records.size());
  view.missing_count = view.expected > present ? view.expected - present : 0;
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
                     "run \"" + asked.run + "\" has no attempt " + std::to_string(*asked.attempt),
                     "GET /api/v1/runs lists those of each run");
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
            {"free_bytes", storage.free_bytes},
            {"problem", text_or_null(now_seen->storage.problem)},
            {"unstored", now_seen->storage.unstored},
            {"waiting_ms", now_seen->storage.waiting_ms}}}};
}

Json QueryService::runs() const {
  const auto seen = snapshot();
  Json list = Json::array();
  for (const auto& run : seen->runs)
    list.push_back(run->newest == nullptr
                       ? run_brief(*run)
                       : run_brief(*run, attempt_now(*run, *run->newest, core::moment_of(*seen, now()))));
  return {{"runs", std::move(list)}};
}

Json QueryService::run(const AttemptAsked& asked) const {
  const auto run = find_run(asked);
  const auto attempt = attempt_in(*run, asked.attempt);
  const auto seen = snapshot();
  return run_status(*run, attempt_now(*run, *attempt, core::moment_of(*seen, now())), *seen);
}

core::AttemptRow QueryService::stored_attempt(const AttemptAsked& asked, History& history) const {
  check_cancelled();
  const std::uint32_t number = attempt_in(*find_run(asked), asked.attempt)->attempt;
  auto row = history.attempt(asked.run, number);
  if (!row.has_value())
    throw QueryError(
        404, "nothing_yet",
        "nothing of run \"" + asked.run + "\", attempt " + std::to_string(number) + ", is stored yet");
  return *row;
}

Json QueryService::ranks(const AttemptAsked& asked, History& history) const {
  const auto run = find_run(asked);
  const core::AttemptRow row = stored_attempt(asked, history);
  const std::vector<core::RankRow> stored = history.ranks(row.id);
  const auto attempt = attempt_in(*run, row.attempt);
  const AttemptNow at = attempt_now(*run, *attempt, core::moment_of(*snapshot(), now()));
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
          {"more", attempt->expected > std::min(attempt->ranks.size(), limits::kMaxRanksPerAnswer)}};
}

Json QueryService::steps(const AttemptAsked& asked, const StepsAsked& steps, History& history) const {
  check_cancelled();
  const auto attempt = attempt_in(*find_run(asked), asked.attempt);
  core::StageTable stages;
  std::vector<core::StepView> views;
  std::optional<Step> last_stored;
  if (const auto row = history.attempt(asked.run, attempt->attempt)) {
    stages = history.stages(row->id);
    // Asked for first: what is stored from here on is in `views`, and no step between them is lost.
    if (const auto last = history.steps(row->id, {}, 1, true); !last.empty())
      last_stored = last.back().breakdown.step;
    views = history.steps(row->id, steps.window, steps.limit + 1, steps.newest);
  }
  stages = all_stages(*attempt, std::move(stages));
  add_live_steps(live_steps(*attempt, last_stored), steps.window, views);
  const std::size_t surplus = views.size() - std::min(views.size(), steps.limit);
  const auto first = steps.newest ? views.begin() : views.end() - static_cast<std::ptrdiff_t>(surplus);
  views.erase(first, first + static_cast<std::ptrdiff_t>(surplus));
  Json list = Json::array();
  for (const core::StepView& view : views) list.push_back(step_brief(view, stages));
  return {
      {"run", asked.run}, {"attempt", attempt->attempt}, {"steps", std::move(list)}, {"more", surplus > 0}};
}

Json QueryService::step(const AttemptAsked& asked, Step step, History& history) const {
  check_cancelled();
  const auto attempt = attempt_in(*find_run(asked), asked.attempt);
  const auto live = live_step(*attempt, step);
  const auto row = history.attempt(asked.run, attempt->attempt);
  auto view = row.has_value() ? history.step(row->id, step) : std::nullopt;
  const bool from_memory = live != nullptr && (!view.has_value() || is_newer(*live, *view));
  if (from_memory) view = *live;
  if (!view.has_value())
    throw QueryError(404, "no_such_step",
                     "run \"" + asked.run + "\", attempt " + std::to_string(attempt->attempt) +
                         ", has no step " + std::to_string(step),
                     "GET /api/v1/runs/{run}/steps lists them");
  const core::StageTable stages =
      all_stages(*attempt, row.has_value() ? history.stages(row->id) : core::StageTable{});
  Json ranks = nullptr;
  bool more = false;
  const History::Visit visit = [&](const core::StepRecords& records, const LayoutTable& layouts) {
    const bool newer = records.size() > view->breakdown.present;
    // others_median and others_max of a stage are not stored: they are made again of the records.
    if (!from_memory || newer) view->breakdown = core::break_down(records, layouts, stages);
    if (newer) take_missing_from(records, *view);
    ranks = Json::array();
    for (const RecordView& record : records.by_rank(layouts)) {
      more = ranks.size() == limits::kMaxRanksPerAnswer;
      if (more) break;
      ranks.push_back(rank_detail(record, own_time(record, stages, view->breakdown.clock)));
    }
    return false;
  };
  if (row.has_value()) history.each_step(row->id, {step, step}, visit);
  Json json = {{"run", asked.run}, {"attempt", attempt->attempt}};
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

Json QueryService::delete_run(const std::string& run) const {
  const auto known = find_run({.run = run, .attempt = std::nullopt});
  for (const auto& [number, attempt] : known->live_attempts)
    if (std::ranges::any_of(attempt->ranks, &core::RankView::live))
      throw QueryError(409, "still_fed", "agents still deliver run \"" + run + "\"", "stop them first");
  collector_.remove(run);
  return {{"run", run}, {"attempts", known->attempts}, {"deleted", true}};
}

}  // namespace laggard::serve
