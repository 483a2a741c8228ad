// Step records made by hand, for tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/collector.h"
#include "daemon/core/step_records.h"

namespace laggard::test {

using Times = std::vector<std::pair<std::string, double>>;

/// A record that owns what its view shows.
struct TestRecord {
  Rank rank = 0;
  Step step = 0;
  double wall_ms = 0;
  Times stream, host;
  std::vector<std::pair<std::string, std::int64_t>> counts;
  std::vector<std::int64_t> samples;
  RecordRest rest;

  Layout layout() const;
  /// Adds the record to `out`, its layout to `layouts`.
  void pack(LayoutTable& layouts, PackedRecords& out) const;
};

/// The records of one step.
core::StepRecords step_of(const std::vector<TestRecord>& records, LayoutTable& layouts);

/// What a store would keep, in memory.
class MemoryArchive : public core::StepArchive {
 public:
  std::optional<core::StoredStep> load(core::AttemptId attempt, Step step) override;
  /// Keeps what the writes say, as a commit would.
  void commit(const core::Writes& writes);
  /// What a collector that starts again would be given.
  core::Restored restored() const;

  std::map<std::pair<core::AttemptId, Step>, std::map<std::uint32_t, PackedRecords>> blocks;
  std::map<std::pair<core::AttemptId, Step>, core::StepView> views;
  std::map<core::RunId, core::RunRow> runs;
  std::map<core::AttemptId, core::AttemptRow> attempts;
  std::map<std::pair<core::AttemptId, Rank>, core::RankRow> ranks;
  std::map<core::AttemptId, std::vector<core::Stage>> stages;
  std::vector<Layout> layouts;
  std::map<core::SourceKey, core::SourceRow> sources;
};

/// A source that sends records to a collector as an agent would.
class TestSource {
 public:
  TestSource(core::Collector& collector, const std::string& run, Rank rank, const std::string& id,
             const std::string& origin = "/log/rank.jsonl", const std::string& host = "node0");
  core::Welcomed hello(core::UnixMs now, bool resumed = false, std::uint32_t attempt_offset = 0);
  core::Collector::Taken config(const std::string& settings, std::uint32_t world_size, core::UnixMs now);
  core::Collector::Taken send(const TestRecord& record, core::UnixMs now, std::uint64_t dropped_before = 0);
  core::Collector::Taken end(core::UnixMs now);
  void bye(bool finished, core::UnixMs now) { collector_.bye(key_, finished, now); }
  /// The attempt that the file itself counts; config() does not raise it.
  std::uint32_t attempt = 1;
  std::uint64_t next_seq = 1;
  core::SourceKey key() const { return key_; }

 private:
  core::Collector& collector_;
  core::Hello hello_;
  core::SourceKey key_ = 0;
  std::vector<Layout> layouts_;
};

}  // namespace laggard::test
