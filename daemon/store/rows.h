// Each table's columns, how a row is written and how it is read: one place for their order. schema/README.md
// says what the columns mean.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/core/writes.h"
#include "daemon/store/database.h"

namespace laggard::store {

/// A table and its columns. The first `key_columns` name a row.
struct Table {
  std::string_view name;
  std::string_view columns;
  int key_columns;

  /// INSERT of one row that takes the place of a row with the same key.
  std::string upsert() const;
  /// SELECT of all columns; `rest` follows the table's name.
  std::string select(std::string_view rest = "") const;
};

extern const Table kRuns, kAttempts, kRanks, kRankSettings, kStages, kLayouts, kSources, kSteps, kStepStages,
    kBlocks;

// `write` runs a statement made by the table's upsert(); `read_...` takes a row of its select().

void write(Statement& statement, const core::RunRow& row);
core::RunRow read_run(Rows& rows);

void write(Statement& statement, const core::AttemptRow& row);
core::AttemptRow read_attempt(Rows& rows);

/// All but the settings, which have a table of their own.
void write(Statement& statement, const core::RankRow& row);
/// Takes a row of the select that joins both tables.
core::RankRow read_rank(Rows& rows);
std::string select_ranks(std::string_view where);

void write(Statement& statement, core::AttemptId attempt, core::StageId id, const core::Stage& stage);
/// Takes a row whose attempt has been read. Throws Error unless the stage's id is `expected`.
core::Stage read_stage(Rows& rows, core::StageId expected);

void write(Statement& statement, const core::SourceRow& row);
core::SourceRow read_source(Rows& rows);

void write(Statement& statement, core::AttemptId attempt, const core::StepView& view);
/// The summary of a step, without its stages.
/// A step's place in the history line, of a row with these columns.
extern const std::string_view kPointColumns;
core::StepPoint read_point(Rows& rows);

core::StepView read_step(Rows& rows);
core::StepState read_step_state(Rows& rows);
std::map<core::StepState, std::uint64_t> count_by_state(Database& database, core::AttemptId attempt);

/// A stage of a step on both clocks; nothing for a clock on which no rank has it.
struct StageRow {
  core::StageId stage = core::kNoStage;
  std::optional<core::StageBreakdown> stream, host;
};
void write(Statement& statement, core::AttemptId attempt, Step step, const StageRow& row);
StageRow read_step_stage(Rows& rows);

}  // namespace laggard::store
