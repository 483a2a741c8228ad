#include "tests/unit/serve/fixture.h"

#include <algorithm>

#include "daemon/core/breakdown.h"

namespace laggard::test {
namespace {

core::RankRow& rank_row(FakeAttempt& attempt, Rank rank) {
  const auto it = std::ranges::lower_bound(attempt.ranks, rank, {}, &core::RankRow::rank);
  if (it != attempt.ranks.end() && it->rank == rank) return *it;
  core::RankRow row{.attempt = attempt.row.id, .rank = rank, .host = "node" + std::to_string(rank)};
  return *attempt.ranks.insert(it, row);
}

core::StepPoint point_of(const core::StepView& view, std::uint64_t event) {
  const core::StepBreakdown& step = view.breakdown;
  core::StepPoint point{.step = step.step,
                        .state = view.state,
                        .present = step.present,
                        .expected = view.expected,
                        .wall_max_ms = step.wall.max,
                        .slowest = step.slowest,
                        .near_tie = step.near_tie,
                        .event = event};
  if (step.culprit.has_value()) point.culprit = step.culprit->rank;
  return point;
}

}  // namespace

FakeAttempt& FakeStore::attempt(const std::string& run, std::uint32_t number, std::uint32_t world_size) {
  FakeAttempt& attempt = runs[run][number];
  attempt.row = {.id = static_cast<core::AttemptId>(100 * runs.size() + number),
                 .run = static_cast<core::RunId>(runs.size()),
                 .attempt = number,
                 .world_size = world_size,
                 .first_received = kNow - 50'000,
                 .last_received = kNow};
  return attempt;
}

void FakeStore::add(FakeAttempt& attempt, Step step, Rank rank, double wall_ms, const Times& stream,
                    const RecordRest* rest) {
  Layout layout{.counts = {"samples"}};
  std::vector<double> doubles{wall_ms};
  for (const auto& [name, ms] : stream) {
    layout.stream.push_back(name);
    attempt.stages.intern(name);
    doubles.push_back(ms);
  }
  const std::vector<std::int64_t> ints{16};
  const LayoutId id = layouts.intern(layout);
  const RecordView record{
      .step = step, .rank = rank, .layout = layouts.find(id), .doubles = doubles, .ints = ints, .rest = rest};
  attempt.records.try_emplace(step, step).first->second.add(record, id);
  core::RankRow& row = rank_row(attempt, rank);
  row.last_step = std::max(row.last_step.value_or(step), step);
  row.last_received = kNow;
  row.last_wall_ms = wall_ms;
  ++row.records;
}

void FakeStore::settle(FakeAttempt& attempt, Step step, core::StepState state) {
  const core::StepRecords& records = attempt.records.at(step);
  core::StepView view{.breakdown = core::break_down(records, layouts, attempt.stages),
                      .state = state,
                      .expected = attempt.row.world_size};
  for (Rank rank = 0; rank < attempt.row.world_size; ++rank)
    if (!records.contains(rank)) view.missing.push_back(rank);
  view.missing_count = static_cast<std::uint32_t>(view.missing.size());
  attempt.views[step] = view;
}

const FakeAttempt& FakeHistory::find(core::AttemptId id) const {
  for (const auto& [run, attempts] : store_.runs)
    for (const auto& [number, attempt] : attempts)
      if (attempt.row.id == id) return attempt;
  throw std::logic_error("the test asks for an attempt that it did not make");
}

std::optional<core::AttemptRow> FakeHistory::attempt(std::string_view run,
                                                     std::optional<std::uint32_t> number) {
  const auto it = store_.runs.find(std::string(run));
  if (it == store_.runs.end()) return std::nullopt;
  if (!number.has_value()) return it->second.rbegin()->second.row;
  const auto found = it->second.find(*number);
  return found != it->second.end() ? std::optional(found->second.row) : std::nullopt;
}

std::vector<core::StepView> FakeHistory::steps(core::AttemptId attempt, core::Window window,
                                               std::size_t limit, bool newest) {
  std::vector<core::StepView> views;
  for (const auto& [step, view] : find(attempt).views)
    if (step >= window.from.value_or(step) && step <= window.to.value_or(step)) views.push_back(view);
  if (views.size() <= limit) return views;
  const auto n = static_cast<std::ptrdiff_t>(limit);
  return newest ? std::vector(views.end() - n, views.end()) : std::vector(views.begin(), views.begin() + n);
}

std::optional<core::StepView> FakeHistory::step(core::AttemptId attempt, Step step) {
  const auto& views = find(attempt).views;
  const auto it = views.find(step);
  return it != views.end() ? std::optional(it->second) : std::nullopt;
}

void FakeHistory::each_step(core::AttemptId attempt, core::Window window, const Visit& visit) {
  before_records_();
  for (const auto& [step, records] : find(attempt).records)
    if (step >= window.from.value_or(step) && step <= window.to.value_or(step))
      if (!visit(records, store_.layouts)) return;
}

core::AttemptView live_view(const FakeAttempt& attempt, std::uint64_t first_event) {
  core::AttemptView view{.id = attempt.row.id,
                         .attempt = attempt.row.attempt,
                         .world_size = attempt.row.world_size,
                         .first_received = attempt.row.first_received,
                         .last_received = attempt.row.last_received,
                         .expected = attempt.row.world_size,
                         .silent_after_ms = 10'000,
                         .stalled_after_ms = 60'000,
                         .lost_after_ms = 1'800'000,
                         .stages = std::make_shared<core::StageTable>(attempt.stages)};
  for (const core::RankRow& row : attempt.ranks)
    view.ranks.push_back({.rank = row.rank,
                          .reported = true,
                          .last_step = row.last_step.value_or(0),
                          .last_received = kNow,
                          .last_wall_ms = row.last_wall_ms,
                          .records = row.records,
                          .live = true,
                          .host = row.host});
  for (const auto& [step, stored] : attempt.views) {
    view.newest_step = step;
    view.newest = std::make_shared<core::StepView>(stored);
    ++view.steps_by_state[stored.state];
    if (stored.state == core::StepState::open) continue;
    view.settled = view.newest;
    view.history.push_back(point_of(stored, first_event++));
  }
  return view;
}

std::shared_ptr<core::RunView> run_view(const std::string& name, std::vector<std::uint32_t> attempts,
                                        core::AttemptView newest) {
  auto run = std::make_shared<core::RunView>();
  run->name = name;
  run->attempts = std::move(attempts);
  run->newest = std::make_shared<core::AttemptView>(std::move(newest));
  run->live_attempts[run->newest->attempt] = run->newest;
  return run;
}

std::shared_ptr<core::Snapshot> snapshot_of(std::vector<std::shared_ptr<const core::RunView>> runs) {
  auto snapshot = std::make_shared<core::Snapshot>();
  snapshot->taken_at = kNow;
  snapshot->ingest = {{"messages_malformed", 3}};
  for (const auto& run : runs)
    for (const core::StepPoint& point : run->newest->history)
      snapshot->event = std::max(snapshot->event, point.event);
  snapshot->runs = std::move(runs);
  return snapshot;
}

serve::Collector collector_with(std::function<std::shared_ptr<const core::Snapshot>()> snapshot,
                                std::vector<std::string>* closed) {
  return {.version = "0.1.0",
          .collector_id = "c0ffee",
          .ingest = "tcp://127.0.0.1:17600",
          .started = kNow - 60'000,
          .now = [] { return kNow; },
          .snapshot = std::move(snapshot),
          .storage =
              [] {
                return serve::StorageFacts{"/data/laggard.db", 4096, 512, 1'000'000};
              },
          .close =
              [closed](const std::string& run) {
                if (closed != nullptr) closed->push_back(run);
              }};
}

void add_job(FakeStore& store) {
  FakeAttempt& first = store.attempt("job", 1, 2);
  for (Step step = 1; step <= 3; ++step) {
    store.add(first, step, 0, 50, {{"compute", 40}});
    store.add(first, step, 1, 52, {{"compute", 40}});
    store.settle(first, step, core::StepState::complete);
  }
  FakeAttempt& second = store.attempt("job", 2, 4);
  second.stages.set_kind(second.stages.intern("all_reduce"), core::StageKind::sync, core::Knowledge::records);
  store.add(second, 7, 0, 100, {{"compute", 60}, {"all_reduce", 38}});
  store.add(second, 7, 1, 110, {{"compute", 90}, {"all_reduce", 18}});
  store.add(second, 7, 2, 100, {{"compute", 60}, {"all_reduce", 39}});
  store.add(second, 7, 3, 100, {{"compute", 60}, {"all_reduce", 40}});
  store.settle(second, 7, core::StepState::complete);
  store.add(second, 8, 0, 101, {{"compute", 61}});
  store.add(second, 8, 1, 99, {{"compute", 61}});
  store.settle(second, 8, core::StepState::open);
  second.ranks[0].settings = R"({"lr": NaN, "type": "config", "world_size": 4})";
}

}  // namespace laggard::test
