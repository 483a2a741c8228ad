#include "client/http/sse_parser.h"

#include <gtest/gtest.h>

namespace laggard::client {
namespace {

TEST(SseParser, ReadsAnEventInAnyPieces) {
  const std::string text = ": hello\n\nid: 7\nevent: step\ndata: {\"a\":\ndata:1}\n\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    SseParser parser;
    auto events = parser.feed(std::string_view(text).substr(0, cut));
    for (auto& event : parser.feed(std::string_view(text).substr(cut))) events.push_back(event);
    ASSERT_EQ(events.size(), 1U) << cut;
    EXPECT_EQ(events[0].id, "7");
    EXPECT_EQ(events[0].name, "step");
    EXPECT_EQ(events[0].data, "{\"a\":\n1}");
  }
}

TEST(SseParser, TakesEveryLineEnd) {
  SseParser parser;
  const auto events = parser.feed("data: a\r\n\r\ndata: b\r\rdata: c\n\n");
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].data, "a");
  EXPECT_EQ(events[1].data, "b");
  EXPECT_EQ(events[2].data, "c");
}

TEST(SseParser, KeepsTheIdAndForgetsTheName) {
  SseParser parser;
  const auto events = parser.feed("id: 1\nevent: gap\ndata: {}\n\ndata: x\n\n");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].id, "1");
  EXPECT_EQ(events[1].name, "message");
}

TEST(SseParser, CommentsAndEmptyEventsAreNothing) {
  SseParser parser;
  EXPECT_TRUE(parser.feed(": keep\n\nevent: step\n\n\n").empty());
}

TEST(SseParser, GivesUpAnEventWithoutEnd) {
  SseParser parser;
  const std::string piece(SseParser::kMaxEventBytes, 'x');
  parser.feed("data: ");
  parser.feed(piece);
  parser.feed(piece);
  EXPECT_TRUE(parser.feed("\n\n").empty());
  const auto events = parser.feed("data: after\n\n");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].data, "after");
}

}  // namespace
}  // namespace laggard::client
