// Whole deliveries, over TCP, to a collector of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "agent/agent.h"
#include "agent/report.h"
#include "daemon/base/error.h"
#include "tests/support/fake_collector.h"
#include "tests/unit/agent/temp_dir.h"

namespace laggard::agent {
namespace {

using test::append;
using test::Behaviour;
using test::contents;
using test::Received;
using test::ReceivedSource;
using test::TempDir;

const std::string kCases = LAGGARD_TEST_DATA "/cases/";

std::string update(int step) {
  return R"({"type":"update","rank":0,"step":)" + std::to_string(step) + R"(,"wall_ms":)" +
         std::to_string(step) + ".5}\n";
}

std::vector<std::int64_t> steps_of(const ReceivedSource& source) {
  std::vector<std::int64_t> out;
  for (const ReceivedSource::Item& item : source.items)
    if (item.kind == 'u') out.push_back(item.step);
  return out;
}

// Becomes ready when the agent logs its first error: a refusal.
class RefusalSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::future<void> heard() { return heard_.get_future(); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level == spdlog::level::err && !std::exchange(said_, true)) heard_.set_value();
  }
  void flush_() override {}

  std::promise<void> heard_;
  bool said_ = false;
};

// Keeps what the agent logs.
class LogLines : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_.push_back(std::string(spdlog::level::to_string_view(message.level).data()) + ": " +
                     std::string(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}

  std::vector<std::string> lines_;
};

class DeliveryTest : public testing::Test {
 protected:
  DeliveryTest() {
    EXPECT_EQ(::pipe(stop_.data()), 0);
    options_.collector = collector_.endpoint();
    options_.run = "run";
    options_.state_directory = dir_ / "state";
  }
  ~DeliveryTest() override {
    for (const int fd : stop_) ::close(fd);
  }
  void TearDown() override { EXPECT_TRUE(collector_.received().faults.empty()); }

  DeliveryReport deliver_once(std::vector<std::string> files) {
    options_.once = true;
    options_.files = std::move(files);
    return deliver_files(options_);
  }
  // Follows until `condition` holds of what the collector received; `meanwhile` runs beside it.
  DeliveryReport follow(
      const std::function<bool(const Received&)>& condition, const std::function<void()>& meanwhile = [] {}) {
    options_.stop_fd = stop_[0];
    auto report = std::async(std::launch::async, [this] { return deliver_files(options_); });
    meanwhile();
    EXPECT_TRUE(collector_.wait_for(condition));
    EXPECT_EQ(::write(stop_[1], "x", 1), 1);
    DeliveryReport out = report.get();
    char byte = 0;
    EXPECT_EQ(::read(stop_[0], &byte, 1), 1);
    return out;
  }
  bool wait_for_updates(std::size_t count) {
    return collector_.wait_for([count](const Received& received) { return received.updates() >= count; });
  }
  static std::function<bool(const Received&)> updates(std::size_t count) {
    return [count](const Received& received) { return received.updates() >= count; };
  }

  TempDir dir_;
  const std::string path_ = dir_ / "rank0.jsonl";
  test::FakeCollector collector_;
  DeliveryOptions options_;
  std::array<int, 2> stop_{-1, -1};
};

TEST_F(DeliveryTest, OnceDeliversEverythingOnceAndSaysWhatBecameOfEveryLine) {
  const DeliveryReport report = deliver_once(
      {kCases + "A13/acc.jsonl", kCases + "A05/tail_cut.jsonl", kCases + "A05/non_object_lines.jsonl"});
  EXPECT_EQ(report.undelivered(), 0u);
  ASSERT_TRUE(collector_.wait_for([](const Received& received) {
    return std::ranges::all_of(received.sources, [](const auto& entry) { return entry.second.finished; });
  }));
  const Received received = collector_.received();
  EXPECT_EQ(received.sources.size(), 6u);
  EXPECT_EQ(received.updates(), 8u + 8u + 1u);
  EXPECT_EQ(received.duplicates, 0u);
  EXPECT_EQ(received.gaps, 0u);
  for (const auto& [id, source] : received.sources) {
    EXPECT_EQ(source.run, "run");
    EXPECT_FALSE(source.resumed);
  }

  const nlohmann::json files = nlohmann::json::parse(report_json(report)).at("files");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].at("path"), kCases + "A05/non_object_lines.jsonl");
  EXPECT_EQ(files[0].at("updates"), 1);
  EXPECT_EQ(files[0].at("rejected"), (nlohmann::json{{"no object", 4}, {"no type", 1}}));
  EXPECT_EQ(files[0].at("blank"), 1);
  EXPECT_EQ(files[1].at("first_rejections"), (nlohmann::json{{{"line", 10}, {"reason", "torn record"}}}));
  EXPECT_EQ(files[1].at("lines"), 10);
  EXPECT_EQ(files[2].at("foreign"), (nlohmann::json{{"unknown type", 16}}));
  EXPECT_EQ(files[2].at("ranks").at(3).at("updates"), 2);
  EXPECT_EQ(files[2].at("ranks").at(3).at("stored"), 3);
  EXPECT_THAT(report_text(report), testing::HasSubstr("tail_cut.jsonl:10: torn record"));
}

TEST_F(DeliveryTest, EveryRankOfThousandsSaysBye) {
  std::string lines;
  for (int rank = 0; rank < 1000; ++rank)
    lines += R"({"type":"update","rank":)" + std::to_string(rank) + R"(,"step":1,"wall_ms":1})" + "\n";
  append(path_, lines);
  EXPECT_EQ(deliver_once({path_}).undelivered(), 0u);
  const Received received = collector_.received();
  EXPECT_EQ(received.sources.size(), 1000u);
  for (const auto& [id, source] : received.sources) EXPECT_TRUE(source.finished) << source.rank;
}

TEST_F(DeliveryTest, RotatedFilesThatAreNamedAreRead) {
  append(path_ + ".1", update(1));
  append(path_, update(2));
  EXPECT_EQ(deliver_once({path_, path_ + ".1"}).files.size(), 2u);
  EXPECT_EQ(deliver_once({dir_ / "rank*"}).files.size(), 2u);
  EXPECT_EQ(collector_.received().updates(), 4u);
}

TEST_F(DeliveryTest, RotatedFileThatIsThereAtTheStartIsReadOnceAndTheNextOneThroughItsBase) {
  append(path_ + ".1", update(1));
  std::filesystem::last_write_time(path_ + ".1",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  append(path_, update(2));
  options_.files = {dir_ / "rank*"};
  const DeliveryReport report = follow(updates(4), [&] {
    EXPECT_TRUE(wait_for_updates(2));
    std::filesystem::rename(path_ + ".1", path_ + ".2");
    std::filesystem::rename(path_, path_ + ".1");
    append(path_, update(3));
    EXPECT_TRUE(wait_for_updates(3));
    append(dir_ / "rank1.jsonl", update(4));  // found by the expansion that sees .2 too
  });
  EXPECT_EQ(report.files.size(), 3u);
  EXPECT_EQ(collector_.received().updates(), 4u);
}

TEST_F(DeliveryTest, OnceWithAFileThatCannotBeReadIsAnError) {
  std::filesystem::create_directory(path_);
  append(dir_ / "rank1.jsonl", update(1));
  try {
    deliver_once({dir_ / "rank1.jsonl", path_});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "cannot read " + path_ + ": it is a directory");
  }
  EXPECT_EQ(collector_.received().updates(), 0u);
}

TEST_F(DeliveryTest, RunNameThatIsNotUtf8IsAnError) {
  options_.run = "r\xff";
  EXPECT_THROW(deliver_once({kCases + "A05/tail_cut.jsonl"}), Error);
}

TEST_F(DeliveryTest, RefusedRunIsOfferedAgainToACollectorThatRestarts) {
  collector_.behave({.refuse = "too many runs"});
  options_.files = {path_};
  append(path_, update(1) + update(2));
  const auto refusal = std::make_shared<RefusalSink>();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", refusal));
  const DeliveryReport report = follow(updates(2), [&] {
    EXPECT_EQ(refusal->heard().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    collector_.stop();
    collector_.behave({});
    collector_.start();
  });
  spdlog::set_default_logger(before);
  EXPECT_EQ(report.undelivered(), 0u);
  EXPECT_EQ(report.files.at(0).ranks.at(0).refusal, "");
}

TEST_F(DeliveryTest, SaysOnceThatItIsConnectedAndWhichFilesItWaitsFor) {
  const auto log = std::make_shared<LogLines>();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  options_.files = {dir_ / "rank*", dir_ / "other*", dir_ / "named.jsonl"};
  append(path_, update(1));
  // Each file that appears is found by one more look at what is still missing.
  follow(updates(3), [&] {
    for (const std::size_t seen : {1U, 2U}) {
      EXPECT_TRUE(wait_for_updates(seen));
      append(dir_ / ("rank" + std::to_string(seen) + ".jsonl"), update(1));
    }
  });
  spdlog::set_default_logger(before);
  EXPECT_THAT(log->lines(), testing::UnorderedElementsAre(
                                "info: no file matches " + (dir_ / "other*") + " yet; waiting",
                                "info: there is no file " + (dir_ / "named.jsonl") + " yet; waiting",
                                "info: connected to the collector at " + collector_.endpoint()));
}

TEST_F(DeliveryTest, OnceWithoutTheFileIsAnError) {
  EXPECT_THROW(deliver_once({path_}), Error);
  EXPECT_THROW(deliver_once({dir_ / "*.jsonl"}), Error);
}

TEST_F(DeliveryTest, AddressThatCannotBeOneIsAnError) {
  options_.collector = "nonsense";
  EXPECT_THROW(deliver_once({kCases + "A05/tail_cut.jsonl"}), Error);
}

TEST_F(DeliveryTest, RefusalIsReported) {
  collector_.behave({.refuse = "run name not allowed"});
  const DeliveryReport report = deliver_once({kCases + "A05/tail_cut.jsonl"});
  EXPECT_EQ(report.undelivered(), 9u);
  EXPECT_EQ(report.files.at(0).ranks.at(0).refusal, "run name not allowed");
}

TEST_F(DeliveryTest, SmallWindowAndForgottenSessionsLoseNothing) {
  collector_.behave({.reject_hello_again = 1, .window = 2});
  EXPECT_EQ(deliver_once({kCases + "A01/rank0.jsonl"}).undelivered(), 0u);
  const Received received = collector_.received();
  ASSERT_EQ(received.sources.size(), 1u);
  EXPECT_EQ(steps_of(received.sources.begin()->second),
            (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8}));
}

TEST_F(DeliveryTest, LinesArriveWhileTheFileIsWrittenAndFilesThatAppearLater) {
  options_.files = {dir_ / "rank*.jsonl"};
  const DeliveryReport report = follow(updates(4), [&] {
    append(path_, update(1) + R"({"type":"upd)");
    EXPECT_TRUE(wait_for_updates(1));
    append(path_, "ate\",\"rank\":0,\"step\":2}\n");
    EXPECT_TRUE(wait_for_updates(2));
    append(dir_ / "rank1.jsonl", R"({"type":"update","rank":1,"step":1})"
                                 "\n");
    EXPECT_TRUE(wait_for_updates(3));
    std::filesystem::rename(path_, path_ + ".1");
    append(path_, update(3));
  });
  EXPECT_EQ(report.undelivered(), 0u);
  const Received received = collector_.received();
  EXPECT_EQ(received.sources.size(), 2u);
  EXPECT_EQ(received.updates(), 4u);
}

TEST_F(DeliveryTest, PollingFindsNewLinesToo) {
  options_.poll = true;
  options_.files = {path_};
  follow(updates(2), [&] {
    append(path_, update(1));
    EXPECT_TRUE(wait_for_updates(1));
    append(path_, update(2));
  });
}

TEST_F(DeliveryTest, CollectorThatRestartsGetsEachItemOnce) {
  options_.files = {path_};
  append(path_, update(1));
  const DeliveryReport report = follow(updates(3), [&] {
    EXPECT_TRUE(wait_for_updates(1));
    collector_.stop();
    append(path_, update(2) + update(3));
    collector_.start();
  });
  EXPECT_EQ(report.undelivered(), 0u);
  const Received received = collector_.received();
  ASSERT_EQ(received.sources.size(), 1u);
  EXPECT_EQ(received.sources.begin()->second.hellos, 2);
  EXPECT_EQ(received.duplicates, 0u);
  EXPECT_EQ(steps_of(received.sources.begin()->second), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST_F(DeliveryTest, AckLostInARestartIsMadeUpForByWelcome) {
  options_.files = {path_};
  append(path_, update(1));
  collector_.behave({.ack = false});
  const DeliveryReport report = follow([](const Received&) { return true; },
                                       [&] {
                                         EXPECT_TRUE(wait_for_updates(1));
                                         collector_.stop();
                                         collector_.behave({});
                                         collector_.start();
                                         EXPECT_TRUE(collector_.wait_for([](const Received& received) {
                                           return received.sources.begin()->second.hellos == 2;
                                         }));
                                       });
  EXPECT_EQ(report.undelivered(), 0u);
  EXPECT_EQ(collector_.received().updates(), 1u);
}

TEST_F(DeliveryTest, CollectorThatLostItsDataGetsTheFileAgain) {
  options_.files = {path_};
  append(path_, update(1) + update(2));
  const DeliveryReport report = follow(updates(3), [&] {
    EXPECT_TRUE(wait_for_updates(2));
    collector_.stop();
    collector_.behave({.collector_id = "collector-2"});
    collector_.start(true);
    append(path_, update(3));
  });
  EXPECT_EQ(report.undelivered(), 0u);
  std::set<std::int64_t> steps;
  for (const auto& [id, source] : collector_.received().sources)
    for (const std::int64_t step : steps_of(source)) steps.insert(step);
  EXPECT_EQ(steps, (std::set<std::int64_t>{1, 2, 3}));
}

TEST_F(DeliveryTest, RestartedAgentGoesOnWhereItStopped) {
  options_.files = {path_};
  append(path_, R"({"type":"config","rank":0})"
                "\n" +
                    update(1) + update(2));
  follow(updates(2));
  append(path_, update(3));
  const DeliveryReport report = follow(updates(3));
  EXPECT_EQ(report.files.at(0).resumed_behind_line, 3u);
  EXPECT_EQ(report.files.at(0).lines.updates, 1u);
  const Received received = collector_.received();
  ASSERT_EQ(received.sources.size(), 2u);
  EXPECT_EQ(received.updates(), 3u);
  EXPECT_TRUE(std::ranges::any_of(received.sources, [](const auto& entry) { return entry.second.resumed; }));
}

TEST_F(DeliveryTest, ProgressOfAnotherCollectorIsWorthNothing) {
  options_.files = {path_};
  append(path_, update(1) + update(2));
  follow(updates(2));
  collector_.stop();
  collector_.behave({.collector_id = "collector-2"});
  collector_.start(true);
  const DeliveryReport report = follow(updates(2));  // no new line: the old ones have to come again
  EXPECT_EQ(report.files.at(0).resumed_behind_line, 0u);
  EXPECT_EQ(collector_.received().updates(), 2u);
}

TEST_F(DeliveryTest, StopWithoutACollectorEndsWithinItsLimitAndCounts) {
  collector_.stop();
  options_.files = {path_};
  options_.stop_fd = stop_[0];
  append(path_, update(1) + update(2));
  EXPECT_EQ(::write(stop_[1], "x", 1), 1);
  const auto before = std::chrono::steady_clock::now();
  const DeliveryReport report = deliver_files(options_);
  EXPECT_LT(std::chrono::steady_clock::now() - before, kStopLimit + std::chrono::seconds(1));
  EXPECT_EQ(report.undelivered(), 2u);
  EXPECT_FALSE(report.collector_reached);
}

TEST_F(DeliveryTest, ProgressCallbackSeesTheWholeDelivery) {
  DeliveryProgress last;
  options_.on_progress = [&last](const DeliveryProgress& progress) { last = progress; };
  const std::string file = kCases + "A01/rank0.jsonl";
  deliver_once({file});
  EXPECT_EQ(last.bytes_read, contents(file).size());
  EXPECT_EQ(last.items_committed, 13u);
  EXPECT_EQ(last.items_waiting, 0u);
}

TEST(Stages, AreThoseThatTheProfileKnows) {
  const std::vector<StageInfo> stages =
      stages_of(parse_profile("[parents]\na = 'b'\n[kinds]\nb = 'sync'\n", "p"));
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].name + stages[0].parent + stages[0].kind, "ab");
  EXPECT_EQ(stages[1].name + stages[1].parent + stages[1].kind, "bsync");
}

}  // namespace
}  // namespace laggard::agent
