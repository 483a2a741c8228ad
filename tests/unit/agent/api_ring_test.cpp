#include "agent/api/ring.h"

#include <gtest/gtest.h>

#include <thread>

namespace laggard::agent {
namespace {

using Words = std::vector<std::uint64_t>;

TEST(RingTest, GivesBackWhatWasPutIn) {
  Ring ring(16);
  Words item;
  EXPECT_TRUE(ring.empty());
  EXPECT_FALSE(ring.pop(&item));
  EXPECT_TRUE(ring.push(Words{1, 2, 3}));
  EXPECT_TRUE(ring.push(Words{}));
  EXPECT_TRUE(ring.pop(&item));
  EXPECT_EQ(item, (Words{1, 2, 3}));
  EXPECT_FALSE(ring.empty());
  EXPECT_TRUE(ring.pop(&item));
  EXPECT_TRUE(item.empty());
  EXPECT_FALSE(ring.pop(&item));
}

TEST(RingTest, TheOldestMakeRoom) {
  Ring ring(16);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(ring.push(Words{i, i, i}));
  Words item;
  for (std::uint64_t i = 96; i < 100; ++i) {
    ASSERT_TRUE(ring.pop(&item));
    EXPECT_EQ(item, (Words{i, i, i}));
  }
  EXPECT_FALSE(ring.pop(&item));
}

TEST(RingTest, AnItemOfHalfTheRingIsTheLargest) {
  Ring ring(16);
  EXPECT_TRUE(ring.push(Words(7)));
  EXPECT_FALSE(ring.push(Words(8)));
  Words item;
  EXPECT_TRUE(ring.pop(&item));
  EXPECT_TRUE(ring.empty());
}

// The reader is slower: items are dropped under its hands. None that it gets is torn, and their order holds.
TEST(RingTest, AWriterThatOverrunsTheReader) {
  constexpr std::uint64_t kItems = 300'000;
  Ring ring(256);
  std::thread writer([&] {
    Words item;
    for (std::uint64_t i = 1; i <= kItems; ++i) {
      item.assign(1 + i % 23, i);
      ring.push(item);
    }
  });
  std::uint64_t last = 0, got = 0;
  Words item;
  while (last < kItems) {
    if (!ring.pop(&item)) continue;
    ++got;
    ASSERT_EQ(item.size(), 1 + item[0] % 23);
    for (const std::uint64_t word : item) ASSERT_EQ(word, item[0]);
    ASSERT_GT(item[0], last);
    last = item[0];
  }
  writer.join();
  EXPECT_LE(got, kItems);
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace laggard::agent
