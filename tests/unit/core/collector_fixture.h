// A collector whose store is in memory and whose clock is a number.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/collector.h"
#include "tests/support/records.h"

namespace laggard::core {

inline constexpr const char* kSettings4 = R"({"world_size":4,"seed":7})";

inline test::TestRecord record(Rank rank, Step step, double wall) {
  return {.rank = rank, .step = step, .wall_ms = wall};
}

class CollectorTest : public ::testing::Test {
 protected:
  std::shared_ptr<const AttemptView> view(std::optional<std::uint32_t> attempt = std::nullopt) {
    const auto snapshot = collector->snapshot(now, {});
    const RunView& run = *snapshot->runs.at(0);
    return attempt.has_value() ? run.live_attempts.at(*attempt) : run.newest;
  }
  std::map<Step, StepPoint> history(std::optional<std::uint32_t> attempt = std::nullopt) {
    std::map<Step, StepPoint> points;
    for (const StepPoint& point : view(attempt)->history) points[point.step] = point;
    return points;
  }
  std::vector<AckInfo> commit(std::int64_t max_wait_ms = 0) {
    archive.commit(collector->collect(now, max_wait_ms));
    return collector->committed();
  }
  std::uint64_t acked(const std::vector<AckInfo>& acks, const test::TestSource& source) {
    for (const AckInfo& ack : acks)
      if (ack.source == source.key()) return ack.committed_seq;
    return 0;
  }
  void restart() { collector = std::make_unique<Collector>(options, archive.restored(), archive, now); }
  std::vector<test::TestSource> four_ranks() {
    std::vector<test::TestSource> sources;
    for (Rank rank = 0; rank < 4; ++rank) {
      sources.emplace_back(*collector, "job", rank, "source" + std::to_string(rank));
      sources.back().hello(now);
      sources.back().config(kSettings4, 4, now);
    }
    return sources;
  }

  Options options;
  test::MemoryArchive archive;
  UnixMs now = 1'000'000;
  std::unique_ptr<Collector> collector = std::make_unique<Collector>(options, Restored{}, archive, now);
};

}  // namespace laggard::core
