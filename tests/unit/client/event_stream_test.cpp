#include "client/http/event_stream.h"

#include <gtest/gtest.h>

#include "client/failure.h"
#include "tests/unit/client/stub_collector.h"

namespace laggard::client {
namespace {

using namespace std::chrono_literals;

void refused(const HttpAnswer& answer) { throw Failure(ExitCode::usage, answer.body); }

TEST(EventStream, GivesWhatCameAndThenSaysThatItEnded) {
  const StubCollector collector({{"GET /e", {200, "id: 1\ndata: a\n\ndata: b\n\n", true}}});
  EventStream stream(parse_endpoint(collector.address()), "/e", refused);
  std::vector<ServerEvent> events;
  EXPECT_THROW(
      while (true) {
        for (auto& event : stream.wait(10s)) events.push_back(event);
      },
      Failure);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].data, "a");
  EXPECT_EQ(events[1].id, "1");
}

TEST(EventStream, ARefusalIsHandedOnWithItsWords) {
  const StubCollector collector({{"GET /e", {404, "gone"}}});
  try {
    EventStream(parse_endpoint(collector.address()), "/e", refused);
    ADD_FAILURE() << "it was not refused";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "gone");
  }
}

}  // namespace
}  // namespace laggard::client
