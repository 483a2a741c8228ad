#include "daemon/serve/run_json.h"

#include <algorithm>

#include "daemon/base/limits.h"
#include "daemon/serve/verdict_json.h"

namespace laggard::serve {
namespace {

const core::StageTable& stages_of(const core::AttemptView& attempt) {
  static const core::StageTable none;
  return attempt.stages != nullptr ? *attempt.stages : none;
}

Json age_json(core::UnixMs now, core::UnixMs then) { return then != 0 ? Json(now - then) : Json(nullptr); }

Json silent_ranks_json(const AttemptNow& at) {
  Json list = Json::array();
  for (const core::RankView& rank : at.attempt.ranks) {
    if (list.size() == limits::kMaxSilentListed) break;
    const std::string_view state = rank_state(at, rank);
    const bool silent =
        state == "silent" || (state == "never" && core::is_silent(at.attempt, rank, at.heard_until));
    if (!silent) continue;
    list.push_back({{"rank", rank.rank},
                    {"last_step", rank.reported ? Json(rank.last_step) : Json(nullptr)},
                    {"last_received_unix_ms", time_point(rank.last_received)},
                    {"age_ms", age_json(at.now, rank.last_received)},
                    {"host", text_or_null(rank.host)},
                    {"reported", rank.reported}});
  }
  return list;
}

Json history_json(const core::AttemptView& attempt) {
  Json points = Json::array();
  for (const core::StepPoint& point : attempt.history)
    points.push_back({{"step", point.step},
                      {"state", core::name_of(point.state)},
                      {"wall_max_ms", measured(point.wall_max_ms)},
                      {"slowest_rank", optional_json(point.slowest)},
                      {"near_tie", point.near_tie},
                      {"culprit_rank", optional_json(point.culprit)}});
  return points;
}

Json steps_by_state_json(const core::AttemptView& attempt) {
  Json json = Json::object();
  for (const core::StepState state : {core::StepState::open, core::StepState::complete,
                                      core::StepState::partial, core::StepState::late_completed}) {
    const auto it = attempt.steps_by_state.find(state);
    json[std::string(core::name_of(state))] = it != attempt.steps_by_state.end() ? it->second : 0;
  }
  return json;
}

Json delivery_json(const core::DeliveryCounts& counts) {
  return {{"stored", counts.stored},
          {"duplicate", counts.duplicate},
          {"conflict", counts.conflict},
          {"late", counts.late},
          {"rejected", counts.rejected},
          {"dropped", counts.dropped},
          {"invalid_values", counts.invalid_values}};
}

Json lines_json(const std::optional<core::LineTotals>& lines) {
  if (!lines.has_value()) return nullptr;
  return {{"accepted", lines->accepted},
          {"foreign", lines->foreign},
          {"rejected", lines->rejected},
          {"pending_tail", lines->pending_tail}};
}

Json clashes_json(const core::AttemptView& attempt) {
  const auto source_json = [](const core::Clash::Claim& claim) {
    return Json{{"host", claim.host}, {"origin", claim.origin}};
  };
  Json list = Json::array();
  for (const core::Clash& clash : attempt.clashes)
    list.push_back({{"rank", clash.rank},
                    {"sources", Json::array({source_json(clash.first), source_json(clash.second)})}});
  return list;
}

Json losses_json(const core::RunView& run) {
  Json list = Json::array();
  for (const core::Losses& losses : run.losses) {
    Json ranges = Json::array();
    for (const core::SeqRange& range : losses.ranges)
      ranges.push_back({{"first_seq", range.first}, {"last_seq", range.last}});
    list.push_back({{"rank", losses.rank},
                    {"host", text_or_null(losses.host)},
                    {"origin", text_or_null(losses.origin)},
                    {"dropped", losses.dropped},
                    {"ranges", std::move(ranges)}});
  }
  return list;
}

/// Whether the rank's source still writes to the attempt. Of an older attempt, what came before the newest
/// one began says nothing.
bool is_writing(const AttemptNow& at, const core::RankView& rank) {
  const core::UnixMs since = std::max(at.heard_until - at.attempt.silent_after_ms, at.superseded.value_or(0));
  return rank.reported && rank.live && !rank.ended && !rank.finished && rank.last_received >= since;
}

std::uint64_t count_writing(const AttemptNow& at) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      at.attempt.ranks, [&](const core::RankView& rank) { return is_writing(at, rank); }));
}

Json other_attempts_json(const core::RunView& run, const AttemptNow& at) {
  Json list = Json::array();
  for (const auto& [number, attempt] : run.live_attempts) {
    if (number == at.attempt.attempt) continue;
    const std::uint64_t reporting = count_writing(attempt_now(run, *attempt, {at.now, at.heard_until}));
    if (reporting == 0) continue;
    list.push_back({{"attempt", number},
                    {"reporting", reporting},
                    {"last_received_unix_ms", time_point(attempt->last_received)}});
  }
  return list;
}

/// Silent ranks that the view does not list, since it lists only so many that were never seen.
std::uint64_t unlisted_silent(const AttemptNow& at) {
  const std::size_t listed = at.attempt.ranks.size();
  const bool silent = core::is_silent(at.attempt, core::RankView{}, at.heard_until);
  return silent && at.attempt.expected > listed ? at.attempt.expected - listed : 0;
}

}  // namespace

AttemptNow attempt_now(const core::RunView& run, const core::AttemptView& attempt, core::Moment moment) {
  AttemptNow at{
      .attempt = attempt, .now = moment.now, .heard_until = moment.heard_until, .superseded = std::nullopt};
  if (attempt.attempt < run.newest->attempt) at.superseded = run.newest->first_received;
  return at;
}

std::string_view rank_state(const AttemptNow& at, const core::RankView& rank) {
  if (!rank.reported) return "never";
  if (rank.ended || rank.finished) return "ended";
  const bool live =
      at.superseded.has_value() ? is_writing(at, rank) : !core::is_silent(at.attempt, rank, at.heard_until);
  return live ? "live" : "silent";
}

RankCounts count_ranks(const AttemptNow& at) {
  RankCounts counts{.silent = unlisted_silent(at)};
  for (const core::RankView& rank : at.attempt.ranks) {
    const std::string_view state = rank_state(at, rank);
    if (state == "live" || state == "ended")
      ++counts.reporting;
    else if (state == "silent" || (state == "never" && core::is_silent(at.attempt, rank, at.heard_until)))
      ++counts.silent;
  }
  return counts;
}

Json run_brief(const core::RunView& run) {
  Json json = {{"run", run.name}, {"state", nullptr}, {"attempt", nullptr}, {"attempts", run.attempts}};
  for (const char* field : {"world_size", "expected", "reporting", "silent", "last_step", "last_step_state",
                            "first_received_unix_ms", "last_received_unix_ms", "age_ms"})
    json[field] = nullptr;
  json["closed"] = run.closed;
  return json;
}

Json run_brief(const core::RunView& run, const AttemptNow& at) {
  const core::AttemptView& attempt = at.attempt;
  const RankCounts ranks = count_ranks(at);
  return {{"run", run.name},
          {"state", core::name_of(core::state_at(attempt, run.closed, at.heard_until))},
          {"attempt", attempt.attempt},
          {"attempts", run.attempts},
          {"world_size", attempt.world_size != 0 ? Json(attempt.world_size) : Json(nullptr)},
          {"expected", attempt.expected},
          {"reporting", ranks.reporting},
          {"silent", ranks.silent},
          {"last_step", optional_json(attempt.newest_step)},
          {"last_step_state",
           attempt.newest != nullptr ? Json(core::name_of(attempt.newest->state)) : Json(nullptr)},
          {"first_received_unix_ms", time_point(attempt.first_received)},
          {"last_received_unix_ms", time_point(attempt.last_received)},
          {"age_ms", age_json(at.now, attempt.last_received)},
          {"closed", run.closed}};
}

Json run_status(const core::RunView& run, const AttemptNow& at, const core::Snapshot& seen) {
  const core::AttemptView& attempt = at.attempt;
  const core::StageTable& stages = stages_of(attempt);
  Json json = run_brief(run, at);
  json["verdict"] = attempt.verdict != nullptr ? to_json(*attempt.verdict, stages) : Json(nullptr);
  json["other_attempts"] = other_attempts_json(run, at);
  json["newest"] = attempt.newest != nullptr ? step_brief(*attempt.newest, stages) : Json(nullptr);
  json["settled"] = nullptr;
  if (attempt.settled != nullptr) {
    json["settled"] = {{"run", run.name}, {"attempt", attempt.attempt}};
    json["settled"].update(step_detail(*attempt.settled, stages));
  }
  json["waiting_for"] = attempt.newest != nullptr ? Json(attempt.newest->missing) : Json::array();
  json["silent_ranks"] = silent_ranks_json(at);
  json["history"] = history_json(attempt);
  json["steps_by_state"] = steps_by_state_json(attempt);
  json["median_wall_ms"] = measured(attempt.median_wall_ms);
  json["silent_after_ms"] = attempt.silent_after_ms;
  json["delivery"] = delivery_json(attempt.counts);
  json["losses"] = losses_json(run);
  json["unlisted_losses"] = {{"sources", run.unlisted_losses.sources},
                             {"dropped", run.unlisted_losses.dropped}};
  json["lines"] = lines_json(attempt.lines);
  json["clashes"] = clashes_json(attempt);
  json["warnings"] = attempt.warnings;
  json["counters"] = seen.ingest;
  json["kept"] = {{"records_from", optional_json(attempt.records_from)},
                  {"summaries_from", optional_json(attempt.summaries_from)}};
  json["storage"] = {{"problem", text_or_null(seen.storage.problem)},
                     {"unstored", seen.storage.unstored},
                     {"waiting_ms", seen.storage.waiting_ms}};
  return json;
}

Json rank_status(const AttemptNow& at, const core::RankView& rank) {
  return {{"rank", rank.rank},
          {"state", rank_state(at, rank)},
          {"last_step", rank.reported ? Json(rank.last_step) : Json(nullptr)},
          {"last_received_unix_ms", time_point(rank.last_received)},
          {"age_ms", age_json(at.now, rank.last_received)},
          {"last_wall_ms", measured(rank.last_wall_ms)},
          {"records", rank.records},
          {"host", text_or_null(rank.host)}};
}

}  // namespace laggard::serve
