// The whole collector with its threads in this process, fed by the agent's delivery code.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/agent.h"
#include "daemon/app/daemon.h"
#include "daemon/base/error.h"
#include "tests/support/http_client.h"

namespace laggard {
namespace {

using nlohmann::json;

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() { start(); }
  ~DaemonTest() override {
    daemon_.reset();
    std::filesystem::remove_all(dir_);
  }

  void start() {
    app::Config config;
    config.data = dir_.string();
    config.ingest = "tcp://127.0.0.1:0";
    config.http = "127.0.0.1:0";
    daemon_ = std::make_unique<app::Daemon>(config, [] { std::abort(); });
  }
  void restart() {
    daemon_.reset();
    start();
  }
  std::string word(const std::string& after) const {
    const std::string line = daemon_->ready_line();
    const std::size_t at = line.find(after) + after.size();
    return line.substr(at, line.find(' ', at) - at);
  }
  json get(const std::string& target) const {
    test::HttpClient client(word("http://"));
    const test::HttpResponse response = client.get(target);
    return response.status == 200 ? json::parse(response.body) : json{{"status", response.status}};
  }
  agent::DeliveryReport deliver(const std::string& run, int rank) const {
    return agent::deliver_files(
        {.collector = word("ingest "),
         .run = run,
         .files = {LAGGARD_TEST_DATA "/published_runs/run2_bs8/rank" + std::to_string(rank) + ".jsonl"},
         .once = true});
  }
  void deliver_all(const std::string& run) const {
    std::vector<std::thread> agents;
    for (int rank = 0; rank < 4; ++rank)
      agents.emplace_back([this, run, rank] { EXPECT_EQ(deliver(run, rank).undelivered(), 0U); });
    for (std::thread& agent : agents) agent.join();
  }
  json report(const std::string& run) const {
    test::HttpClient client(word("http://"));
    const test::HttpResponse response = client.request("POST", "/api/v1/report", json{{"runs", {run}}}.dump(),
                                                       "Content-Type: application/json\r\n");
    EXPECT_EQ(response.status, 200U) << response.body;
    return json::parse(response.body).at("runs").at(0);
  }

  const std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / ("laggard-daemon-test-" + std::to_string(::getpid()));
  std::unique_ptr<app::Daemon> daemon_;
};

TEST_F(DaemonTest, FourAgentsAtOnceGiveThePublishedWall) {
  deliver_all("job");
  const json status = get("/api/v1/runs/job");
  EXPECT_EQ(status.at("last_step"), 30);
  EXPECT_EQ(status.at("settled").at("state"), "complete");
  EXPECT_EQ(status.at("delivery").at("stored"), 84);
  EXPECT_NEAR(report("job").at("max_rank_wall_s").get<double>(), 15.416, 0.0005);
}

TEST_F(DaemonTest, ARestartChangesNoFigureAndASecondReadingIsAllDuplicates) {
  deliver_all("job");
  const json before = report("job");
  restart();
  EXPECT_EQ(report("job"), before);
  deliver_all("job");
  EXPECT_EQ(report("job"), before);
  const json status = get("/api/v1/runs/job");
  EXPECT_EQ(status.at("attempts"), json::array({1}));
  EXPECT_EQ(status.at("delivery").at("duplicate"), 84);
  EXPECT_EQ(status.at("delivery").at("stored"), 84);
}

TEST_F(DaemonTest, QueriesGoOnWhileRecordsCome) {
  std::atomic<bool> done = false;
  std::thread asker([&] {
    while (!done) {
      (void)get("/api/v1/runs");
      (void)get("/api/v1/runs/job/steps");
    }
  });
  for (int i = 0; i < 3; ++i) deliver_all("job");
  done = true;
  asker.join();
  EXPECT_EQ(get("/api/v1/runs/job").at("delivery").at("stored"), 84);
}

TEST_F(DaemonTest, ASecondDaemonOnTheSameDirectoryIsRefused) {
  app::Config config;
  config.data = dir_.string();
  config.ingest = "tcp://127.0.0.1:0";
  config.http = "127.0.0.1:0";
  EXPECT_THROW(app::Daemon second(config, [] {}), Error);
}

}  // namespace
}  // namespace laggard
