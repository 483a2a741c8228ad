#include "agent/api/settings.h"

#include <gtest/gtest.h>
#include <laggard/laggard.h>

#include <cstdlib>
#include <map>

#include "daemon/base/error.h"
#include "tests/support/error_of.h"

namespace laggard::agent {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    // Whoever runs this test may do so under a launcher.
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_PROCID"})
      ::unsetenv(name);
    for (const char* name : {"INGEST", "RUN", "RANK", "WORLD_SIZE", "ATTEMPT", "QUEUE_RECORDS", "DISABLED",
                             "KEY", "COLLECTOR_KEY", "SPOOL_MB", "LAUNCH"})
      ::unsetenv((std::string("LAGGARD_") + name).c_str());
    set("RUN", "job");
  }
  void TearDown() override { SetUp(); }
  void set(const char* name, const char* value) {
    ::setenv((std::string("LAGGARD_") + name).c_str(), value, /*overwrite=*/1);
  }
  std::string refusal() {
    return test::error_of([] { read_settings(nullptr); });
  }
};

TEST_F(SettingsTest, TheEnvironmentIsEnough) {
  set("INGEST", "tcp://node:1");
  set("RANK", "2");
  set("WORLD_SIZE", "4");
  set("ATTEMPT", "3");
  set("QUEUE_RECORDS", "1000");
  const ApiSettings settings = read_settings(nullptr);
  EXPECT_EQ(settings.collector, "tcp://node:1");
  EXPECT_EQ(settings.run, "job");
  EXPECT_EQ(settings.rank, 2u);
  EXPECT_EQ(settings.world_size, 4u);
  EXPECT_EQ(settings.attempt, 3u);
  EXPECT_EQ(settings.queue_records, 1000u);
  EXPECT_FALSE(settings.keys.has_value());
}

TEST_F(SettingsTest, OptionsComeFirst) {
  set("RANK", "2");
  set("WORLD_SIZE", "4");
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.rank = 0;
  options.run = "other";
  options.held_steps = 100;
  const ApiSettings settings = read_settings(&options);
  EXPECT_EQ(settings.rank, 0u);
  EXPECT_EQ(settings.world_size, 4u);
  EXPECT_EQ(settings.run, "other");
  EXPECT_EQ(settings.held_steps, limits::kMaxHeldSteps);
}

TEST_F(SettingsTest, AnOlderCallersOptionsAreShorter) {
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.rank = 5;
  options.run = "beyond its end";
  options.size = offsetof(laggard_options, world_size);
  const ApiSettings settings = read_settings(&options);
  EXPECT_EQ(settings.rank, 5u);
  EXPECT_EQ(settings.run, "job");
  options.size = 0;
  EXPECT_NE(test::error_of([&] { read_settings(&options); }), "");
}

TEST_F(SettingsTest, ALoneProcessIsTheOnlyRank) {
  const ApiSettings settings = read_settings(nullptr);
  EXPECT_EQ(settings.rank, 0u);
  EXPECT_EQ(settings.world_size, 1u);
  EXPECT_EQ(settings.queue_records, limits::kWindowRecords);
}

TEST_F(SettingsTest, TheLauncherIsAskedForWhatNobodySaid) {
  ::setenv("RANK", "3", 1);
  ::setenv("WORLD_SIZE", "4", 1);
  ::setenv("LOCAL_RANK", "1", 1);
  ::setenv("TORCHELASTIC_RUN_ID", "elastic", 1);
  ::setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
  ApiSettings settings = read_settings(nullptr);
  EXPECT_EQ(settings.run, "job");
  EXPECT_EQ(std::tuple(settings.rank, settings.world_size), std::tuple(3u, 4u));
  EXPECT_FALSE(settings.attempt.has_value()) << "the collector knows of earlier ones";

  set("RUN", "");
  ::setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
  settings = read_settings(nullptr);
  EXPECT_EQ(settings.run, "elastic");
  EXPECT_EQ(settings.attempt, 3u);
  const std::string config = make_config(settings, R"({"topology": {"pp": 1}})").settings;
  EXPECT_NE(config.find(R"("local_rank":1,"pp":1)"), std::string::npos) << config;
  EXPECT_NE(config.find("\"started_unix_ms\":1"), std::string::npos) << config;

  set("RANK", "0");
  settings = read_settings(nullptr);
  EXPECT_EQ(std::tuple(settings.rank, settings.world_size), std::tuple(0u, 0u)) << "not one of each";
  EXPECT_FALSE(settings.local_rank.has_value());
  set("RANK", "");
  set("WORLD_SIZE", "16");
  settings = read_settings(nullptr);
  EXPECT_EQ(std::tuple(settings.rank, settings.world_size), std::tuple(3u, 16u));
}

TEST_F(SettingsTest, OneOfSeveralIsNotMeasuredAsTheOnlyRank) {
  ::setenv("RANK", "0", 1);
  ::setenv("WORLD_SIZE", "4", 1);
  EXPECT_NE(refusal().find("which rank this is cannot be told: RANK=0 of WORLD_SIZE=4"), std::string::npos)
      << refusal();
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.rank = 2;
  options.world_size = 4;
  EXPECT_EQ(read_settings(&options).rank, 2u);
  options = LAGGARD_OPTIONS_INIT;
  options.world_size = 1;
  EXPECT_EQ(read_settings(&options).rank, 0u) << "whoever says that it is alone is";
}

TEST_F(SettingsTest, AFrameworkThatKnowsTheRankIsAskedLast) {
  ::setenv("WORLD_SIZE", "4", 1);
  ::setenv("LOCAL_RANK", "1", 1);
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.otherwise_rank = 3;
  options.otherwise_world_size = 4;
  ApiSettings settings = read_settings(&options);
  EXPECT_EQ(std::tuple(settings.rank, settings.world_size), std::tuple(3u, 4u));
  options.size = offsetof(laggard_options, otherwise_rank);
  EXPECT_NE(test::error_of([&] { read_settings(&options); }), "") << "an older caller has no such member";
  options.size = sizeof options;
  ::setenv("RANK", "1", 1);
  settings = read_settings(&options);
  EXPECT_EQ(std::tuple(settings.rank, settings.world_size), std::tuple(1u, 4u)) << "the launcher comes first";
  EXPECT_EQ(settings.local_rank, 1u);
}

TEST_F(SettingsTest, AJobThatNobodyNamesHasTheProgramsName) {
  set("RUN", "");
  EXPECT_EQ(read_settings(nullptr).run, "api_unit_test");
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.otherwise_run = "train";
  EXPECT_EQ(read_settings(&options).run, "train");
  set("RUN", "job");
  EXPECT_EQ(read_settings(&options).run, "job");
}

TEST_F(SettingsTest, AQueueWithoutALimitIsBounded) {
  set("QUEUE_RECORDS", "0");
  EXPECT_EQ(read_settings(nullptr).queue_records, limits::kWindowRecords);
  set("QUEUE_RECORDS", "1");
  EXPECT_EQ(read_settings(nullptr).queue_records, limits::kLeastQueueRecords);
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.queue_records = UINT32_MAX;
  EXPECT_EQ(read_settings(&options).queue_records, limits::kWindowRecords);
}

TEST_F(SettingsTest, WhatCannotBeIsSaid) {
  const std::map<std::string, std::map<std::string, std::string>> wrong{
      {"set LAGGARD_RANK", {{"WORLD_SIZE", "4"}}},
      {"is none of 4", {{"WORLD_SIZE", "4"}, {"RANK", "4"}}},
      {"LAGGARD_RANK=x", {{"RANK", "x"}}},
      {"LAGGARD_RANK=-1", {{"RANK", "-1"}}},
      {"LAGGARD_WORLD_SIZE=0", {{"WORLD_SIZE", "0"}}},
      {"LAGGARD_ATTEMPT=0", {{"ATTEMPT", "0"}}},
  };
  for (const auto& [sentence, variables] : wrong) {
    SetUp();
    for (const auto& [name, value] : variables) set(name.c_str(), value.c_str());
    EXPECT_NE(refusal().find(sentence), std::string::npos) << sentence << ": " << refusal();
  }
}

TEST_F(SettingsTest, WhatIsNoReasonToMeasureNothingIsSaid) {
  const std::map<std::string, std::string> names{{"llm@2", "llm-2"},
                                                 {"a\nb", "a-b"},
                                                 {"\xff", "\\xff"},
                                                 {std::string(199, 'x') + "\u00e4", std::string(199, 'x')}};
  for (const auto& [given, taken] : names) {
    set("RUN", given.c_str());
    const ApiSettings settings = read_settings(nullptr);
    EXPECT_EQ(settings.run, taken);
    ASSERT_EQ(settings.remarks.size(), 1U);
    EXPECT_NE(settings.remarks[0].find(" from LAGGARD_RUN: it "), std::string::npos) << settings.remarks[0];
  }
  SetUp();
  set("QUEUE_RECORDS", "unlimited");
  set("SPOOL_MB", "-1");
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.config = "[1]";
  const ApiSettings settings = read_settings(&options);
  EXPECT_EQ(settings.queue_records, limits::kWindowRecords);
  EXPECT_EQ(settings.spool_mb, limits::kSpoolMb);
  EXPECT_EQ(settings.config, "");
  EXPECT_EQ(settings.remarks.size(), 3U);
}

TEST_F(SettingsTest, TheStartIsInTheConfig) {
  set("LAUNCH", "77:0");
  const std::string config = make_config(read_settings(nullptr), R"({"launch_id": "mine"})").settings;
  EXPECT_NE(config.find(R"("launch_id":"77:0")"), std::string::npos) << config;
}

TEST_F(SettingsTest, DisabledByAnythingButNothingAndZero) {
  for (const char* value : {"", "0"}) {
    set("DISABLED", value);
    EXPECT_FALSE(is_disabled());
  }
  set("DISABLED", "1");
  EXPECT_TRUE(is_disabled());
}

TEST_F(SettingsTest, TheConfigHasTheJobsSettings) {
  set("RANK", "1");
  set("WORLD_SIZE", "2");
  set("ATTEMPT", "7");
  const ParsedLine config = make_config(read_settings(nullptr), R"({"global_batch": 64, "rank": 0})");
  EXPECT_EQ(config.kind, LineKind::config);
  EXPECT_EQ(config.rank, 1u);
  EXPECT_EQ(config.world_size, 2u);
  EXPECT_EQ(config.attempt, 7u);
  EXPECT_NE(config.settings.find("\"global_batch\":64"), std::string::npos);
  EXPECT_NE(config.settings.find("\"rank\":1"), std::string::npos);
}

TEST_F(SettingsTest, SettingsThatAreNoneAreRefused) {
  const ApiSettings settings = read_settings(nullptr);
  const std::string long_text = "{\"x\":\"" + std::string(limits::kMaxSettingsBytes, 'x') + "\"}";
  for (const std::string& text :
       {std::string("["), std::string("[1]"), std::string("{\"a\":\xff}"), long_text,
        "{\"a\":" + std::string(30'000, '[') + std::string(30'000, ']') + "}"})
    EXPECT_NE(test::error_of([&] { make_config(settings, text); }), "") << text.substr(0, 20);
}

}  // namespace
}  // namespace laggard::agent
