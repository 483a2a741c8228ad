#include "daemon/store/reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/store/rows.h"

namespace laggard::store {
namespace {

constexpr Step kFirst = std::numeric_limits<Step>::min();
constexpr Step kLast = std::numeric_limits<Step>::max();
// Large enough that a slice's fixed costs vanish, small enough that it is read in some milliseconds.
constexpr std::size_t kSliceBytes = std::size_t{4} << 20;

template <typename T>
std::vector<T> all(Rows rows, T (*read)(Rows&)) {
  std::vector<T> found;
  while (rows.next()) found.push_back(read(rows));
  return found;
}

// The order of a breakdown.
std::vector<core::StageBreakdown> stream_then_host(const std::vector<StageRow>& rows) {
  std::vector<core::StageBreakdown> stages;
  for (const auto clock : {&StageRow::stream, &StageRow::host})
    for (const StageRow& row : rows)
      if ((row.*clock).has_value()) stages.push_back(*(row.*clock));
  return stages;
}

}  // namespace

Reader::Reader(const std::filesystem::path& database, std::chrono::milliseconds limit)
    : limit_(limit),
      database_(database.string(), Database::Mode::read_only),
      blocks_(database_),
      attempts_(database_,
                kAttempts.select("WHERE run_id = (SELECT run_id FROM runs WHERE name = ?) ORDER BY attempt")),
      ranks_(database_, select_ranks("WHERE attempt_id = ?")),
      stages_(database_, kStages.select("WHERE attempt_id = ? ORDER BY stage_id")),
      steps_up_(database_,
                kSteps.select("WHERE attempt_id = ? AND step BETWEEN ? AND ? ORDER BY step LIMIT ?")),
      steps_down_(database_,
                  kSteps.select("WHERE attempt_id = ? AND step BETWEEN ? AND ? ORDER BY step DESC LIMIT ?")),
      step_stages_(database_, kStepStages.select("WHERE attempt_id = ? AND step = ? ORDER BY stage_id")) {}

std::vector<core::AttemptRow> Reader::attempts(std::string_view run) {
  start();
  return all(attempts_.query(run), read_attempt);
}

std::vector<core::RankRow> Reader::ranks(core::AttemptId attempt) {
  start();
  return all(ranks_.query(attempt), read_rank);
}

core::StageTable Reader::stages(core::AttemptId attempt) {
  start();
  core::StageTable table;
  Rows rows = stages_.query(attempt);
  while (rows.next()) {
    rows.integer();  // the attempt
    table.restore(read_stage(rows, static_cast<core::StageId>(table.size())));
  }
  return table;
}

std::vector<core::StepView> Reader::steps(core::AttemptId attempt, const StepRange& range) {
  start();
  Statement& statement = range.newest ? steps_down_ : steps_up_;
  std::vector<core::StepView> found =
      all(statement.query(attempt, range.from.value_or(kFirst), range.to.value_or(kLast), range.limit),
          read_step);
  if (range.newest) std::reverse(found.begin(), found.end());
  return found;
}

std::optional<StoredStep> Reader::step(core::AttemptId attempt, Step step) {
  start();
  const Transaction transaction(database_, Transaction::Kind::read);
  std::vector<core::StepView> found = all(steps_up_.query(attempt, step, step, 1), read_step);
  if (found.empty()) return std::nullopt;
  StoredStep stored{.view = std::move(found.front())};
  stored.view.breakdown.stages = stream_then_host(all(step_stages_.query(attempt, step), read_step_stage));
  stored.records = blocks_.load(attempt, step);
  return stored;
}

void Reader::for_each_step(core::AttemptId attempt, std::optional<Step> from, std::optional<Step> to,
                           const OnStep& on_step) {
  Clock::duration left = limit_;
  const Step last = to.value_or(kLast);
  for (Step next = from.value_or(kFirst); next <= last;) {
    const Clock::time_point started = Clock::now();
    database_.set_deadline(started + left);
    const std::vector<core::StepRecords> slice = blocks_.slice(attempt, next, last, kSliceBytes);
    left -= Clock::now() - started;
    if (slice.empty()) return;
    for (const core::StepRecords& records : slice)
      if (!on_step(records)) return;
    if (slice.back().step() == kLast) return;
    next = slice.back().step() + 1;
  }
}

}  // namespace laggard::store
