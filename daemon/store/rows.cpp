#include "daemon/store/rows.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <vector>

#include "daemon/base/value.h"

namespace laggard::store {
namespace {

// The project's own types say "unknown" with 0, "" or an empty list in places where 0 is no possible value;
// the database says it with NULL.
template <typename T>
std::optional<T> unless_zero(T value) {
  return value == 0 ? std::nullopt : std::optional<T>(value);
}

std::optional<std::string_view> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
}

std::optional<std::int64_t> when(bool known, std::int64_t value) {
  return known ? std::optional<std::int64_t>(value) : std::nullopt;
}

template <typename T>
std::optional<std::string> json_unless_empty(const std::vector<T>& list) {
  if (list.empty()) return std::nullopt;
  // `replace`: a text that came as broken UTF-8 must not stop a commit.
  return nlohmann::json(list).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename T>
std::vector<T> read_list(Rows& rows) {
  const std::string_view text = rows.text();
  if (text.empty()) return {};
  try {
    return nlohmann::json::parse(text).get<std::vector<T>>();
  } catch (const nlohmann::json::exception&) {
    rows.damaged("a list that is no JSON");
  }
}

// How a measured value that is not valid came in, as a text beside it: REAL has no room for the difference.
std::optional<std::string_view> state_unless_valid(double value) {
  const ValueState state = state_of(value);
  return state == ValueState::valid ? std::nullopt : std::optional<std::string_view>(name_of(state));
}

double read_measured(Rows& rows) {
  const double value = rows.real();
  const std::string_view state = rows.text();
  if (state == name_of(ValueState::null)) return kNull;
  if (state == name_of(ValueState::text)) return kText;
  if (state == name_of(ValueState::non_finite) && state_of(value) == ValueState::absent)
    return std::numeric_limits<double>::quiet_NaN();
  return value;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs_of(const std::vector<core::SeqRange>& ranges) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
  pairs.reserve(ranges.size());
  for (const core::SeqRange& range : ranges) pairs.emplace_back(range.first, range.last);
  return pairs;
}

const core::StageBreakdown kNoTime;

template <typename Enum>
Enum read_name(Rows& rows, std::initializer_list<Enum> known) {
  const std::string_view text = rows.text();
  for (const Enum value : known)
    if (core::name_of(value) == text) return value;
  rows.damaged("an unknown word '" + std::string(text) + "'");
}

core::StageKind read_kind(Rows& rows) {
  using enum core::StageKind;
  return read_name(rows, {work, input, sync, aside});
}

core::Knowledge read_knowledge(Rows& rows) {
  using enum core::Knowledge;
  return read_name(rows, {assumed, built_in, records, profile});
}

core::Clock read_clock(Rows& rows) { return read_name(rows, {core::Clock::stream, core::Clock::host}); }

// A rank that only means something when a spread has values: 0 in the project's types without them.
std::optional<Rank> read_rank_number(Rows& rows) {
  const std::optional<std::int64_t> rank = rows.optional_integer();
  return rank.has_value() ? std::optional<Rank>(static_cast<Rank>(*rank)) : std::nullopt;
}

// One clock's columns of a step_stages row; all NULL when the stage has no time on it.
auto clock_values(const std::optional<core::StageBreakdown>& stage) {
  const bool known = stage.has_value();
  const core::StageBreakdown& is = known ? *stage : kNoTime;
  const core::Spread& spread = is.spread;
  return std::tuple(when(known, spread.present), spread.min, spread.median, spread.mean, spread.max,
                    when(spread.present > 0, spread.min_rank), when(spread.present > 0, spread.max_rank),
                    is.slowest_ms, known ? state_unless_valid(is.slowest_ms) : std::nullopt,
                    is.slowest_exclusive_ms, when(known, is.invalid), when(known, is.null));
}

std::optional<core::StageBreakdown> read_clock_values(Rows& rows, core::StageId id, core::Clock clock) {
  const std::optional<std::int64_t> present = rows.optional_integer();
  core::StageBreakdown stage{.stage = id, .clock = clock};
  stage.spread = {.present = static_cast<std::uint32_t>(present.value_or(0)),
                  .min = rows.real(),
                  .median = rows.real(),
                  .mean = rows.real(),
                  .max = rows.real()};
  stage.spread.min_rank = read_rank_number(rows).value_or(0);
  stage.spread.max_rank = read_rank_number(rows).value_or(0);
  stage.slowest_ms = read_measured(rows);
  stage.slowest_exclusive_ms = rows.real();
  stage.invalid = rows.as<std::uint32_t>();
  stage.null = rows.as<std::uint32_t>();
  return present.has_value() ? std::optional(stage) : std::nullopt;
}

}  // namespace

const Table kRuns{"runs", "run_id, name, created_unix_ms, closed", 1};
const Table kAttempts{
    "attempts",
    "attempt_id, run_id, attempt, world_size, first_received_unix_ms, last_received_unix_ms, records_from, "
    "summaries_from",
    1};
const Table kRanks{
    "ranks",
    "attempt_id, rank, host, ended, finished, last_step, last_received_unix_ms, records, last_wall_ms, "
    "last_wall_state",
    2};
const Table kRankSettings{"rank_settings", "attempt_id, rank, settings", 2};
const Table kStages{"stages", "attempt_id, stage_id, name, parent_id, kind, kind_from, parent_from", 2};
const Table kLayouts{"layouts", "layout_id, names", 1};
const Table kSources{
    "sources",
    "source_key, run_id, rank, source, host, origin, pid, started_unix_ms, committed_seq, "
    "base_offset, attempt_offset, attempt, gone, stored, duplicate, conflict, late, rejected, "
    "dropped, invalid_values, lost",
    1};
const Table kSteps{"steps",
                   "attempt_id, step, state, present, expected, missing_count, missing, wall_present, "
                   "wall_min_ms, wall_median_ms, wall_mean_ms, wall_max_ms, wall_min_rank, slowest_rank, "
                   "near_tie, clock, own_present, own_min_ms, own_median_ms, own_mean_ms, own_max_ms, "
                   "own_min_rank, own_max_rank, culprit_rank, culprit_own_excess_ms, culprit_stage_id, "
                   "culprit_stage_excess_ms, invalid_values, aside, tags, first_received_unix_ms, "
                   "settled_unix_ms",
                   2};
const Table kStepStages{
    "step_stages",
    "attempt_id, step, stage_id, stream_present, stream_min_ms, stream_median_ms, "
    "stream_mean_ms, stream_max_ms, stream_min_rank, stream_max_rank, stream_slowest_ms, "
    "stream_slowest_state, stream_slowest_exclusive_ms, stream_invalid, stream_nulls, "
    "host_present, host_min_ms, host_median_ms, host_mean_ms, host_max_ms, host_min_rank, "
    "host_max_rank, host_slowest_ms, host_slowest_state, host_slowest_exclusive_ms, "
    "host_invalid, host_nulls",
    3};
const Table kBlocks{"blocks", "attempt_id, step, block, ranks, records", 3};

std::string Table::upsert() const {
  std::string keys, updates, values;
  int column = 0;
  for (std::size_t from = 0; from < columns.size(); ++column) {
    const std::size_t to = std::min(columns.find(", ", from), columns.size());
    const std::string word(columns.substr(from, to - from));
    values += column == 0 ? "?" : ", ?";
    if (column < key_columns)
      keys += (keys.empty() ? "" : ", ") + word;
    else
      updates += (updates.empty() ? "" : ", ") + word + " = excluded." + word;
    from = to + 2;
  }
  return "INSERT INTO " + std::string(name) + " (" + std::string(columns) + ") VALUES (" + values +
         ") ON CONFLICT (" + keys + ") DO UPDATE SET " + updates;
}

std::string Table::select(std::string_view rest) const {
  return "SELECT " + std::string(columns) + " FROM " + std::string(name) + " " + std::string(rest);
}

void write(Statement& statement, const core::RunRow& row) {
  statement.run(row.id, row.name, row.created, row.closed);
}

core::RunRow read_run(Rows& rows) {
  return {.id = rows.integer(),
          .name = std::string(rows.text()),
          .created = rows.integer(),
          .closed = rows.boolean()};
}

void write(Statement& statement, const core::AttemptRow& row) {
  statement.run(row.id, row.run, row.attempt, unless_zero(row.world_size), row.first_received,
                row.last_received, row.records_from, row.summaries_from);
}

core::AttemptRow read_attempt(Rows& rows) {
  return {.id = rows.integer(),
          .run = rows.integer(),
          .attempt = rows.as<std::uint32_t>(),
          .world_size = rows.as<std::uint32_t>(),
          .first_received = rows.integer(),
          .last_received = rows.integer(),
          .records_from = rows.optional_integer(),
          .summaries_from = rows.optional_integer()};
}

void write(Statement& statement, const core::RankRow& row) {
  statement.run(row.attempt, row.rank, unless_empty(row.host), row.ended, row.finished, row.last_step,
                unless_zero(row.last_received), row.records, row.last_wall_ms,
                state_unless_valid(row.last_wall_ms));
}

std::string select_ranks(std::string_view where) {
  return "SELECT " + std::string(kRanks.columns) +
         ", settings FROM ranks LEFT JOIN rank_settings USING (attempt_id, rank) " + std::string(where) +
         " ORDER BY attempt_id, rank";
}

core::RankRow read_rank(Rows& rows) {
  core::RankRow row{.attempt = rows.integer(), .rank = rows.as<Rank>()};
  row.host = rows.text();
  row.ended = rows.boolean();
  row.finished = rows.boolean();
  row.last_step = rows.optional_integer();
  row.last_received = rows.integer();
  row.records = rows.as<std::uint64_t>();
  row.last_wall_ms = read_measured(rows);
  row.settings = rows.text();
  return row;
}

void write(Statement& statement, core::AttemptId attempt, core::StageId id, const core::Stage& stage) {
  statement.run(attempt, id, stage.name, when(stage.parent != core::kNoStage, stage.parent),
                core::name_of(stage.kind), core::name_of(stage.kind_from), core::name_of(stage.parent_from));
}

core::Stage read_stage(Rows& rows, core::StageId expected) {
  if (rows.integer() != expected) rows.damaged("a stage is missing");
  core::Stage stage{.name = std::string(rows.text())};
  stage.parent = static_cast<core::StageId>(rows.optional_integer().value_or(core::kNoStage));
  stage.kind = read_kind(rows);
  stage.kind_from = read_knowledge(rows);
  stage.parent_from = read_knowledge(rows);
  return stage;
}

void write(Statement& statement, const core::SourceRow& row) {
  const core::DeliveryCounts& counts = row.counts;
  statement.run(row.key, row.run, row.rank, row.id, unless_empty(row.host), unless_empty(row.origin), row.pid,
                row.started_unix_ms, row.committed_seq, row.base_offset, row.attempt_offset,
                unless_zero(row.attempt), row.gone, counts.stored, counts.duplicate, counts.conflict,
                counts.late, counts.rejected, counts.dropped, counts.invalid_values,
                json_unless_empty(pairs_of(row.lost)));
}

core::SourceRow read_source(Rows& rows) {
  core::SourceRow row{.key = rows.integer(), .run = rows.integer(), .rank = rows.as<Rank>()};
  row.id = rows.text();
  row.host = rows.text();
  row.origin = rows.text();
  row.pid = rows.as<std::uint32_t>();
  row.started_unix_ms = rows.integer();
  row.committed_seq = rows.as<std::uint64_t>();
  row.base_offset = rows.as<std::uint32_t>();
  row.attempt_offset = rows.as<std::uint32_t>();
  row.attempt = rows.as<std::uint32_t>();
  row.gone = rows.boolean();
  for (std::uint64_t* count :
       {&row.counts.stored, &row.counts.duplicate, &row.counts.conflict, &row.counts.late,
        &row.counts.rejected, &row.counts.dropped, &row.counts.invalid_values})
    *count = rows.as<std::uint64_t>();
  for (const auto& [first, last] : read_list<std::pair<std::uint64_t, std::uint64_t>>(rows))
    row.lost.push_back({first, last});
  return row;
}

void write(Statement& statement, core::AttemptId attempt, const core::StepView& view) {
  const core::StepBreakdown& step = view.breakdown;
  const core::Spread &wall = step.wall, &own = step.own;
  const std::optional<core::Culprit>& culprit = step.culprit;
  const bool has_stage = culprit.has_value() && culprit->stage != core::kNoStage;
  statement.run(attempt, step.step, core::name_of(view.state), step.present, view.expected,
                view.missing_count, json_unless_empty(view.missing), wall.present, wall.min, wall.median,
                wall.mean, wall.max, when(wall.present > 0, wall.min_rank), step.slowest, step.near_tie,
                core::name_of(step.clock), own.present, own.min, own.median, own.mean, own.max,
                when(own.present > 0, own.min_rank), when(own.present > 0, own.max_rank),
                when(culprit.has_value(), culprit ? culprit->rank : 0),
                culprit ? culprit->own_excess_ms : kAbsent, when(has_stage, has_stage ? culprit->stage : 0),
                has_stage ? culprit->stage_excess_ms : kAbsent, step.invalid_values, step.aside,
                json_unless_empty(step.tags), view.first_received, unless_zero(view.settled_at));
}

core::StepState read_step_state(Rows& rows) {
  using enum core::StepState;
  return read_name(rows, {open, complete, partial, late_completed});
}

std::map<core::StepState, std::uint64_t> count_by_state(Database& database, core::AttemptId attempt) {
  std::map<core::StepState, std::uint64_t> counts;
  Statement statement(database, "SELECT state, count(*) FROM steps WHERE attempt_id = ? GROUP BY state");
  Rows rows = statement.query(attempt);
  while (rows.next()) {
    const core::StepState state = read_step_state(rows);
    counts[state] = rows.as<std::uint64_t>();
  }
  return counts;
}

const std::string_view kPointColumns =
    "step, state, present, expected, wall_max_ms, slowest_rank, near_tie, culprit_rank";

core::StepPoint read_point(Rows& rows) {
  core::StepPoint point{.step = rows.integer()};
  point.state = read_step_state(rows);
  point.present = rows.as<std::uint32_t>();
  point.expected = rows.as<std::uint32_t>();
  point.wall_max_ms = rows.real();
  point.slowest = read_rank_number(rows);
  point.near_tie = rows.boolean();
  point.culprit = read_rank_number(rows);
  return point;
}

core::StepView read_step(Rows& rows) {
  core::StepView view;
  core::StepBreakdown& step = view.breakdown;
  rows.integer();  // the attempt, which the caller has asked for
  step.step = rows.integer();
  view.state = read_step_state(rows);
  step.present = rows.as<std::uint32_t>();
  view.expected = rows.as<std::uint32_t>();
  view.missing_count = rows.as<std::uint32_t>();
  view.missing = read_list<Rank>(rows);
  step.wall = {.present = rows.as<std::uint32_t>(),
               .min = rows.real(),
               .median = rows.real(),
               .mean = rows.real(),
               .max = rows.real()};
  step.wall.min_rank = read_rank_number(rows).value_or(0);
  step.slowest = read_rank_number(rows);
  step.wall.max_rank = step.slowest.value_or(0);
  step.near_tie = rows.boolean();
  step.clock = read_clock(rows);
  step.own = {.present = rows.as<std::uint32_t>(),
              .min = rows.real(),
              .median = rows.real(),
              .mean = rows.real(),
              .max = rows.real()};
  step.own.min_rank = read_rank_number(rows).value_or(0);
  step.own.max_rank = read_rank_number(rows).value_or(0);
  const std::optional<Rank> culprit = read_rank_number(rows);
  const double own_excess_ms = rows.real();
  const auto stage = static_cast<core::StageId>(rows.optional_integer().value_or(core::kNoStage));
  const double stage_excess_ms = rows.real();
  if (culprit.has_value())
    step.culprit = core::Culprit{.rank = *culprit,
                                 .own_excess_ms = own_excess_ms,
                                 .stage = stage,
                                 .stage_excess_ms = stage == core::kNoStage ? 0 : stage_excess_ms};
  step.invalid_values = rows.as<std::uint32_t>();
  step.aside = rows.boolean();
  step.tags = read_list<std::string>(rows);
  view.first_received = rows.integer();
  view.settled_at = rows.integer();
  return view;
}

void write(Statement& statement, core::AttemptId attempt, Step step, const StageRow& row) {
  const auto key = std::tuple(attempt, step, row.stage);
  std::apply([&](const auto&... values) { statement.run(values...); },
             std::tuple_cat(key, clock_values(row.stream), clock_values(row.host)));
}

StageRow read_step_stage(Rows& rows) {
  rows.integer();  // the attempt and the step, which the caller has asked for
  rows.integer();
  StageRow row{.stage = rows.as<core::StageId>()};
  row.stream = read_clock_values(rows, row.stage, core::Clock::stream);
  row.host = read_clock_values(rows, row.stage, core::Clock::host);
  return row;
}

}  // namespace laggard::store
