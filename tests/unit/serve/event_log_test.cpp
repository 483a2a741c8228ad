#include "daemon/serve/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/limits.h"
#include "tests/unit/serve/fixture.h"

namespace laggard::serve {
namespace {

/// A run with steps that settled as the events `first` to `last`; the step's number is the event's.
std::shared_ptr<core::RunView> run_with_events(const std::string& name, std::uint64_t first,
                                               std::uint64_t last) {
  core::AttemptView view;
  for (std::uint64_t event = first; event <= last; ++event)
    view.history.push_back({.step = static_cast<Step>(event),
                            .state = core::StepState::complete,
                            .present = 4,
                            .expected = 4,
                            .wall_max_ms = 15416.3,
                            .slowest = 1,
                            .near_tie = true,
                            .event = event});
  return test::run_view(name, {1}, view);
}

TEST(EventLog, AnEventIsAsDocumented) {
  EventLog log;
  log.update(test::snapshot_of({run_with_events("job", 17, 17)}));
  const EventLog::Batch batch = log.read(16, "", 1000);
  EXPECT_EQ(batch.text,
            "id: 17\nevent: step\n"
            "data: {\"run\":\"job\",\"attempt\":1,\"step\":17,\"state\":\"complete\",\"present\":4,"
            "\"expected\":4,\"wall_max_ms\":15416.3,\"slowest_rank\":1,\"near_tie\":true,"
            "\"culprit_rank\":null,\"verdict\":null}\n\n");
  EXPECT_EQ(batch.position, 17U);
  EXPECT_EQ(batch.events, 1U);
}

TEST(EventLog, EachEventComesOnceAndInOrderOverRunsAndSnapshots) {
  EventLog log;
  log.update(test::snapshot_of({run_with_events("a", 2, 3), run_with_events("b", 1, 1)}));
  log.update(test::snapshot_of({run_with_events("a", 2, 3), run_with_events("b", 4, 5)}));
  EXPECT_EQ(log.read(0, "", 100'000).events, 5U);
  const std::string text = log.read(0, "", 100'000).text;
  std::size_t at = 0;
  for (int id = 1; id <= 5; ++id) {
    at = text.find("id: " + std::to_string(id) + "\n", at);
    ASSERT_NE(at, std::string::npos) << id;
  }
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("gap")));
}

TEST(EventLog, ARunsEventsAloneLeaveNoGap) {
  EventLog log;
  log.update(test::snapshot_of({run_with_events("a", 1, 2), run_with_events("b", 3, 3)}));
  const EventLog::Batch batch = log.read(0, "b", 100'000);
  EXPECT_EQ(batch.events, 1U);
  EXPECT_THAT(batch.text, testing::StartsWith("id: 3\n"));
}

TEST(EventLog, AHistoryThatIsAllNewIsAGapOfItsRunAlone) {
  EventLog log;
  log.update(test::snapshot_of({run_with_events("busy", 1, 1), run_with_events("calm", 2, 2)}));
  const std::uint64_t last = 100 + core::kHistoryPoints;
  log.update(
      test::snapshot_of({run_with_events("busy", 100, last - 1), run_with_events("calm", last, last)}));
  EXPECT_THAT(log.read(2, "busy", 100'000).text, testing::StartsWith(std::string(kGapEvent) + "id: 100\n"));
  EXPECT_THAT(log.read(2, "", 100'000).text, testing::StartsWith(std::string(kGapEvent) + "id: 100\n"));
  EXPECT_THAT(log.read(2, "calm", 100'000).text, testing::StartsWith("id: " + std::to_string(last) + "\n"));
}

TEST(EventLog, AStepThatSettledTwiceIsNoGap) {
  EventLog log;
  log.update(test::snapshot_of({run_with_events("a", 1, 2)}));
  log.update(test::snapshot_of({run_with_events("a", 5, 5)}));
  EXPECT_THAT(log.read(2, "", 100'000).text, testing::StartsWith("id: 5\n"));
}

TEST(EventLog, AClientBeginsNowOrWhereItLeftOff) {
  EventLog log;
  log.update(test::snapshot_of({run_with_events("a", 1, 9)}));
  EXPECT_EQ(log.start(std::nullopt).position, 9U);
  EXPECT_EQ(log.start(4).position, 4U);
  EXPECT_FALSE(log.start(4).gap);
  EXPECT_EQ(log.start(10).position, 9U);
  EXPECT_TRUE(log.start(10).gap) << "the number is from another life of the collector";
}

TEST(EventLog, RemembersSoMuchAndNoMore) {
  EventLog log;
  constexpr std::uint64_t kOver = 10;
  for (std::uint64_t event = 1; event <= limits::kMaxEventsRemembered + kOver; ++event)
    log.update(test::snapshot_of({run_with_events("a", event, event)}));
  EXPECT_TRUE(log.has_forgotten_after(kOver - 1));
  EXPECT_FALSE(log.has_forgotten_after(kOver));
  EXPECT_THAT(log.read(kOver - 1, "", 1).text, testing::StartsWith(kGapEvent));
  EXPECT_THAT(log.read(kOver, "", 1).text, testing::StartsWith("id: 11\n"));
}

TEST(EventLog, ABatchIsBounded) {
  EventLog log;
  log.update(test::snapshot_of({run_with_events("a", 1, 100)}));
  const EventLog::Batch batch = log.read(0, "", 1000);
  EXPECT_LT(batch.text.size(), 1300U);
  EXPECT_LT(batch.position, 10U);
  EXPECT_THAT(log.read(batch.position, "", 1).text,
              testing::StartsWith("id: " + std::to_string(batch.position + 1) + "\n"));
}

}  // namespace
}  // namespace laggard::serve
