// Hand-made jobs: what a store would hold of them, and what a snapshot would say.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/serve/history.h"
#include "daemon/serve/query_service.h"

namespace laggard::test {

inline constexpr core::UnixMs kNow = 1'700'000'100'000;

using Times = std::vector<std::pair<std::string, double>>;

/// An attempt as it is stored.
struct FakeAttempt {
  core::AttemptRow row;
  std::vector<core::RankRow> ranks;
  core::StageTable stages;
  std::map<Step, core::StepRecords> records;
  std::map<Step, core::StepView> views;
};

/// What a store would hold.
struct FakeStore {
  LayoutTable layouts;
  std::map<std::string, std::map<std::uint32_t, FakeAttempt>> runs;

  FakeAttempt& attempt(const std::string& run, std::uint32_t number, std::uint32_t world_size);
  /// A record with stream times and the count `samples`; its rank gets a row.
  void add(FakeAttempt& attempt, Step step, Rank rank, double wall_ms, const Times& stream,
           const RecordRest* rest = nullptr);
  /// Makes the step's view from its records, as the engine would: expected is the world size.
  void settle(FakeAttempt& attempt, Step step, core::StepState state);
};

/// `before_records` runs in each_step() before anything is read.
class FakeHistory final : public serve::History {
 public:
  explicit FakeHistory(
      const FakeStore& store, std::function<void()> before_records = [] {})
      : store_(store), before_records_(std::move(before_records)) {}

  std::optional<core::AttemptRow> attempt(std::string_view run, std::optional<std::uint32_t> number) override;
  std::vector<core::RankRow> ranks(core::AttemptId attempt) override { return find(attempt).ranks; }
  core::StageTable stages(core::AttemptId attempt) override { return find(attempt).stages; }
  std::vector<core::StepView> steps(core::AttemptId attempt, core::Window window, std::size_t limit,
                                    bool newest) override;
  std::optional<core::StepView> step(core::AttemptId attempt, Step step) override;
  void each_step(core::AttemptId attempt, core::Window window, const Visit& visit) override;
  const LayoutTable& layouts() override { return store_.layouts; }

 private:
  const FakeAttempt& find(core::AttemptId id) const;

  const FakeStore& store_;
  const std::function<void()> before_records_;
};

/// The live view of a stored attempt: the newest step is its last one, the settled one its last that is not
/// open. Every rank was heard of at kNow and is live; event numbers count up from `first_event`.
core::AttemptView live_view(const FakeAttempt& attempt, std::uint64_t first_event = 1);

/// A run whose newest attempt is in memory.
std::shared_ptr<core::RunView> run_view(const std::string& name, std::vector<std::uint32_t> attempts,
                                        core::AttemptView newest);

/// A snapshot of the runs, which must be sorted by name; `event` is the newest one in their histories.
std::shared_ptr<core::Snapshot> snapshot_of(std::vector<std::shared_ptr<const core::RunView>> runs);

/// A collector with this snapshot. Its clock stands at kNow; closed runs are added to `closed`.
serve::Collector collector_with(std::function<std::shared_ptr<const core::Snapshot>()> snapshot,
                                std::vector<std::string>* closed = nullptr);

/// Run "job": attempt 1 (world 2, steps 1 to 3) and attempt 2 (world 4). In attempt 2, step 7 is complete:
/// walls 100, 110, 100, 100; `compute` 60, 90, 60, 60 on the stream, `all_reduce` (sync) 38, 18, 39, 40, so
/// that rank 1 holds the others back by 30 ms. Step 8 is open: ranks 0 and 1 only.
void add_job(FakeStore& store);

}  // namespace laggard::test
