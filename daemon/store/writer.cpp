#include "daemon/store/writer.h"

#include <algorithm>
#include <vector>

#include "daemon/store/rows.h"
#include "proto/codec.h"

namespace laggard::store {
namespace {

// A stage's two clocks side by side, by stage id. They come as all of the one, then all of the other.
std::vector<StageRow> by_stage(const std::vector<core::StageBreakdown>& stages) {
  std::vector<StageRow> rows;
  for (const core::StageBreakdown& stage : stages) {
    const auto at = std::lower_bound(rows.begin(), rows.end(), stage.stage,
                                     [](const StageRow& row, core::StageId id) { return row.stage < id; });
    StageRow& row = at != rows.end() && at->stage == stage.stage
                        ? *at
                        : *rows.insert(at, {.stage = stage.stage, .stream = {}, .host = {}});
    (stage.clock == core::Clock::stream ? row.stream : row.host) = stage;
  }
  return rows;
}

}  // namespace

Writer::Writer(Database& database)
    : database_(database),
      run_(database, kRuns.upsert()),
      attempt_(database, kAttempts.upsert()),
      rank_(database, kRanks.upsert()),
      // The same settings come with every row of a rank: comparing them is cheaper than writing them.
      rank_settings_(database, kRankSettings.upsert() + " WHERE settings <> excluded.settings"),
      stage_(database, kStages.upsert()),
      layout_(database, kLayouts.upsert()),
      source_(database, kSources.upsert()),
      step_(database, kSteps.upsert()),
      step_stage_(database, kStepStages.upsert()),
      block_(database, kBlocks.upsert()),
      delete_steps_(database) {}

void Writer::commit(const core::Writes& writes) {
  Transaction transaction(database_, Transaction::Kind::write);
  delete_rows(writes);
  write_facts(writes);
  for (const core::StepRow& row : writes.steps) write_step(row);
  for (const core::SourceRow& row : writes.sources) write(source_, row);
  transaction.commit();
}

// A run's own rows go at once, so that its name is free; Retention deletes its steps bit by bit.
void Writer::delete_rows(const core::Writes& writes) {
  for (const core::SourceKey key : writes.deleted.sources)
    Statement(database_, "DELETE FROM sources WHERE source_key = ?").run(key);
  for (const core::RunId run : writes.deleted.runs) {
    const auto of_run = [&](const char* sql) { Statement(database_, sql).run(run); };
    of_run("INSERT INTO deletions SELECT attempt_id FROM attempts WHERE run_id = ?");
    of_run(
        "DELETE FROM rank_settings WHERE attempt_id IN (SELECT attempt_id FROM attempts WHERE run_id = ?)");
    of_run("DELETE FROM ranks WHERE attempt_id IN (SELECT attempt_id FROM attempts WHERE run_id = ?)");
    of_run("DELETE FROM sources WHERE run_id = ?");
    of_run("DELETE FROM attempts WHERE run_id = ?");
    of_run("DELETE FROM runs WHERE run_id = ?");
  }
  for (const core::Expiry& expiry : writes.expired) {
    // A floor is a step behind one that goes.
    if (expiry.records_from.has_value()) delete_steps_.records(expiry.attempt, *expiry.records_from - 1);
    if (expiry.summaries_from.has_value())
      delete_steps_.everything(expiry.attempt, *expiry.summaries_from - 1);
  }
}

void Writer::write_facts(const core::Writes& writes) {
  for (const core::RunRow& row : writes.runs) write(run_, row);
  for (const core::AttemptRow& row : writes.attempts) write(attempt_, row);
  for (const core::RankRow& row : writes.ranks) {
    write(rank_, row);
    if (!row.settings.empty()) rank_settings_.run(row.attempt, row.rank, row.settings);
  }
  for (const auto& [attempt, stages] : writes.stages)
    for (std::size_t i = 0; i < stages.size(); ++i)
      write(stage_, attempt, static_cast<core::StageId>(i), stages[i]);
  for (const auto& [id, layout] : writes.layouts) {
    const std::string names = codec::encode_layout(*layout);
    layout_.run(id, Blob{names});
  }
}

void Writer::write_step(const core::StepRow& row) {
  const core::StepBreakdown& breakdown = row.view->breakdown;
  write(step_, row.attempt, *row.view);
  // Records are only ever added to a step, so its stages never become fewer: each row finds its own again.
  for (const StageRow& stage : by_stage(breakdown.stages))
    write(step_stage_, row.attempt, breakdown.step, stage);
  for (const auto& [block, records] : row.blocks) {
    block_.run(row.attempt, breakdown.step, block, records->size(), Blob{encoder_.encode(*records)});
  }
}

}  // namespace laggard::store
