// A RankSource whose items nobody can hand over a second time.
#include <gtest/gtest.h>

#include "agent/rank_source.h"
#include "proto/wire.pb.h"
#include "tests/unit/agent/temp_dir.h"

namespace laggard::agent {
namespace {

constexpr std::size_t kMost = 1024;
constexpr std::uint64_t kAll = 100 * RankSource::kBatchRecords;

class DroppingSourceTest : public testing::Test {
 protected:
  void add_config() {
    ParsedLine config;
    config.kind = LineKind::config;
    config.settings = "{}";
    source_.add_config(config);
  }
  void add_updates(std::uint64_t count) {
    ParsedLine update;
    update.kind = LineKind::update;
    update.doubles = {1};
    for (std::uint64_t i = 0; i < count; ++i) {
      update.step = static_cast<Step>(++step_);
      EXPECT_EQ(source_.add_update(update), std::nullopt);
    }
  }
  void welcome(std::uint64_t committed = 0) {
    (void)source_.hello();
    EXPECT_TRUE(source_.on_welcome({.committed_seq = committed, .window_records = limits::kWindowRecords}));
  }
  // The next batch, as the collector reads it; without items when there is none.
  wire::Batch next() {
    const auto bytes = source_.next_batch();
    wire::Envelope envelope;
    EXPECT_TRUE(envelope.ParseFromString(bytes.value_or("")));
    return envelope.batch();
  }

  test::TempDir dir_;
  RankSource source_{1, Hello{.run = "r"}, {}, kMost};
  std::uint64_t step_ = 0;
};

TEST_F(DroppingSourceTest, TheOldestGoAndTheNextBatchSaysHowMany) {
  add_config();
  add_updates(kAll);
  EXPECT_LE(source_.held(), kMost);
  EXPECT_EQ(source_.held() + source_.dropped(), kAll + 1);
  welcome();
  EXPECT_TRUE(next().has_config());
  source_.on_ack({.committed_seq = 1, .credit = limits::kWindowRecords});
  const wire::Batch first = next();
  EXPECT_EQ(first.dropped_before(), source_.dropped());
  EXPECT_EQ(first.first_seq(), 2 + source_.dropped());
  EXPECT_EQ(next().first_seq(), 0u) << "a gap counts as on its way";
  source_.on_ack(
      {.committed_seq = first.first_seq() + RankSource::kBatchRecords - 1, .credit = limits::kWindowRecords});
  EXPECT_EQ(next().dropped_before(), 0u);
}

TEST_F(DroppingSourceTest, WhatWasSentStays) {
  welcome();
  add_updates(kMost);
  std::uint64_t sent = 0;
  for (wire::Batch batch = next(); batch.first_seq() != 0; batch = next())
    sent += static_cast<std::uint64_t>(batch.records().steps_size());
  EXPECT_EQ(sent, kMost / 2);
  add_updates(kAll);
  const std::uint64_t dropped = source_.dropped();
  EXPECT_GT(dropped, 0u);
  // The collector has them all, although nothing was heard of it: none of them may count as dropped.
  welcome(sent);
  const wire::Batch batch = next();
  EXPECT_EQ(batch.first_seq(), sent + dropped + 1);
  EXPECT_EQ(batch.dropped_before(), dropped);
}

TEST_F(DroppingSourceTest, LostBeforeTheyCameHere) {
  welcome();
  add_updates(1);
  source_.skip(5);
  add_updates(1);
  source_.flush();
  EXPECT_EQ(next().first_seq(), 1u);
  const wire::Batch second = next();
  EXPECT_EQ(second.first_seq(), 7u);
  EXPECT_EQ(second.dropped_before(), 5u);
  source_.on_ack({.committed_seq = 7, .credit = 100});
  EXPECT_EQ(source_.held(), 0u);
  EXPECT_EQ(source_.dropped(), 5u);
}

TEST_F(DroppingSourceTest, ACollectorThatForgotHearsWhatItLacks) {
  welcome();
  add_updates(10);
  source_.flush();
  (void)next();
  source_.on_ack({.committed_seq = 10, .credit = 100});
  add_updates(1);
  source_.flush();
  welcome(0);
  const wire::Batch batch = next();
  EXPECT_EQ(batch.first_seq(), 11u);
  EXPECT_EQ(batch.dropped_before(), 10u);
}

TEST_F(DroppingSourceTest, AnotherCollectorHearsTheConfigFirstAndOfNoFurtherAttempt) {
  welcome();
  add_config();
  add_updates(10);
  source_.flush();
  EXPECT_TRUE(next().has_config());
  (void)next();
  source_.on_ack({.committed_seq = 11, .credit = 100});
  add_updates(5);  // never closed, as far as the other collector knows
  for (int collectors = 0; collectors < 2; ++collectors) {
    welcome(0);
    EXPECT_EQ(source_.held(), 6u);
    const wire::Batch config = next();
    EXPECT_TRUE(config.has_config());
    EXPECT_EQ(config.first_seq(), 11u);
    EXPECT_EQ(config.dropped_before(), 10u);
    source_.flush();
    const wire::Batch records = next();
    EXPECT_EQ(records.first_seq(), 12u);
    EXPECT_EQ(records.dropped_before(), 0u);
    for (const wire::Batch* batch : {&config, &records}) EXPECT_EQ(batch->attempt(), 1u);
    source_.on_ack({.committed_seq = 11, .credit = 100});
    EXPECT_EQ(source_.held(), 5u);
    EXPECT_EQ(source_.dropped(), 0u);
  }
}

TEST_F(DroppingSourceTest, TheNumberOfADroppedItemIsUsedAgain) {
  welcome();
  add_config();
  (void)next();
  source_.on_ack({.committed_seq = 1, .credit = 100});
  add_updates(kAll);
  source_.flush();
  const std::uint64_t dropped = source_.dropped(), held = source_.held();
  welcome(0);
  EXPECT_EQ(source_.dropped(), dropped - 1);
  EXPECT_EQ(source_.held(), held + 1);
  EXPECT_TRUE(next().has_config());
  const wire::Batch records = next();
  EXPECT_EQ(records.dropped_before(), 0u);
  source_.on_ack({.committed_seq = source_.last_seq(), .credit = 100});
  EXPECT_EQ(source_.held(), 0u);
}

TEST_F(DroppingSourceTest, SettingsSaidOverAndOverDoNotPileUp) {
  ParsedLine config;
  config.kind = LineKind::config;
  config.attempt = 1;
  for (int i = 0; i < 2000; ++i) {
    config.settings = std::string(60'000, 'x') + std::to_string(i);
    source_.add_config(config);
    add_updates(1);
  }
  EXPECT_LT(source_.window_bytes(), std::size_t{1} << 20);
  EXPECT_EQ(source_.last_seq(), 2001u);
  EXPECT_EQ(source_.held() + source_.dropped(), 2001u);
  EXPECT_GT(source_.held(), kMost / 2) << "steps are kept as without them";
  welcome();
  const wire::Batch first = next();
  EXPECT_EQ(first.config().settings(), config.settings) << "the newest";
  EXPECT_EQ(first.first_seq(), 1u);
  // It is on its way, and stays what it is.
  config.settings = "{}";
  source_.add_config(config);
  source_.add_config(config);
  EXPECT_EQ(source_.last_seq(), 2002u);
}

TEST_F(DroppingSourceTest, SettingsOfManyAttemptsDoNotPileUp) {
  ParsedLine config;
  config.kind = LineKind::config;
  for (std::uint32_t attempt = 1; attempt <= 2000; ++attempt) {
    config.attempt = attempt;
    config.settings = std::string(60'000, 'x') + std::to_string(attempt);
    source_.add_config(config);
    add_updates(1);
    ASSERT_LE(source_.window_bytes(), limits::kWindowBytes);
  }
  EXPECT_EQ(source_.held() + source_.dropped(), 4000u);
  welcome();
  std::string newest;
  for (wire::Batch batch = next(); batch.first_seq() != 0; batch = next()) {
    if (batch.has_config()) newest = batch.config().settings();
    source_.on_ack(
        {.committed_seq = batch.first_seq() + batch.records().steps_size() - (batch.has_config() ? 0 : 1),
         .credit = limits::kWindowRecords});
  }
  EXPECT_EQ(newest, config.settings);
}

TEST_F(DroppingSourceTest, ARefusalKeepsWhatFits) {
  add_updates(10);
  source_.on_refusal();
  add_updates(kAll);
  EXPECT_GT(source_.held(), kMost / 2);
  EXPECT_LE(source_.held(), kMost);
  welcome();
  EXPECT_GT(next().first_seq(), 0u);
}

TEST_F(DroppingSourceTest, ASpoolHoldsWhatMemoryDoesNot) {
  source_.spill_to(std::make_unique<Spool>(dir_ / "", 1 << 20));
  welcome();
  add_config();
  add_updates(kAll);
  source_.flush();
  EXPECT_EQ(source_.dropped(), 0u);
  EXPECT_EQ(source_.held(), kAll + 1);
  const std::size_t memory = source_.window_bytes();
  std::uint64_t last = 0;
  while (last < kAll + 1) {
    const wire::Batch batch = next();
    ASSERT_EQ(batch.first_seq(), last + 1);
    last += static_cast<std::uint64_t>(std::max(batch.records().steps_size(), 1));
    if (batch.has_records()) {
      ASSERT_EQ(batch.records().steps(0), static_cast<Step>(batch.first_seq() - 1));
    }
    source_.on_ack({.committed_seq = last, .credit = limits::kWindowRecords});
  }
  EXPECT_LE(source_.window_bytes(), memory);
  EXPECT_EQ(source_.held(), 0u);
}

TEST_F(DroppingSourceTest, AFullSpoolDropsTheOldestAndGoesRound) {
  source_.spill_to(std::make_unique<Spool>(dir_ / "", 10'000));
  for (int round = 0; round < 5; ++round) {
    welcome(source_.last_seq());
    const std::uint64_t begin = source_.last_seq(), dropped = source_.dropped();
    add_updates(10 * kAll);
    source_.flush();
    EXPECT_GT(source_.dropped(), dropped);
    EXPECT_GT(source_.held(), kMost);
    std::uint64_t got = 0, last = begin;
    for (wire::Batch batch = next(); batch.first_seq() != 0; batch = next()) {
      EXPECT_EQ(batch.first_seq(), last + 1 + batch.dropped_before());
      got += static_cast<std::uint64_t>(batch.records().steps_size());
      last = batch.first_seq() + static_cast<std::uint64_t>(batch.records().steps_size()) - 1;
      source_.on_ack({.committed_seq = last, .credit = limits::kWindowRecords});
    }
    EXPECT_EQ(last, source_.last_seq());
    EXPECT_EQ(got + source_.dropped() - dropped, 10 * kAll);
    EXPECT_EQ(source_.held(), 0u);
  }
}

TEST_F(DroppingSourceTest, LargeRecordsAreBoundedByTheirBytes) {
  ParsedLine update;
  update.kind = LineKind::update;
  update.doubles = {1};
  update.sample_indices.assign(limits::kMaxSampleIndices, INT64_MAX);
  for (Step step = 1; step <= 200; ++step) {
    update.step = step;
    EXPECT_EQ(source_.add_update(update), std::nullopt);
    EXPECT_LE(source_.window_bytes(), limits::kWindowBytes);
  }
  EXPECT_GT(source_.dropped(), 0u);
  welcome();
  std::size_t sent = 0;
  for (wire::Batch batch = next(); batch.first_seq() != 0; batch = next()) sent += batch.ByteSizeLong();
  EXPECT_LE(sent, limits::kWindowBytes / 2);
}

}  // namespace
}  // namespace laggard::agent
