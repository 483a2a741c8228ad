// The engine with its two threads and a real database, fed from here without a socket. With ThreadSanitizer,
// which cannot look into libzmq, this is what it watches.
#include "daemon/app/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "daemon/base/error.h"
#include "daemon/store/archive.h"
#include "daemon/store/store.h"

namespace laggard::app {
namespace {

constexpr Rank kRanks = 8;
constexpr Step kSteps = 400, kStepsPerMessage = 16;

core::UnixMs system_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Layout layout_of_forward() {
  Layout layout;
  layout.stream = {"forward"};
  return layout;
}

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { start(); }
  ~EngineTest() override {
    engine_.reset();
    archive_.reset();
    store_.reset();
    std::filesystem::remove_all(dir_);
  }

  void start() {
    store_ = std::make_unique<store::Store>(dir_);
    core::Restored restored = store_->restore();
    archive_ = std::make_unique<store::Archive>(store_->database_path());
    engine_ = std::make_unique<Engine>(core::Options{}, std::move(restored), *store_, *archive_, queue_,
                                       system_now);
    engine_->start({.reply = [this](std::vector<ingest::Reply> replies) { note(std::move(replies)); },
                    .drained = [] {},
                    .ingest_counts = [] { return ingest::Counts(); },
                    .connection_counts = [] { return ingest::ConnectionCounts(); },
                    .published =
                        [this] {
                          ++published_;
                          hangs_ = hang_.load();
                          hang_.wait(true);
                        },
                    .failed = [] { std::abort(); },
                    .turned = [this] { ++turned_; }});
  }
  void restart() {
    engine_.reset();
    archive_.reset();
    store_.reset();
    welcomed_.clear();
    start();
  }

  void note(std::vector<ingest::Reply> replies) {
    const std::scoped_lock lock(mutex_);
    for (const ingest::Reply& reply : replies) {
      if (const auto* welcome = std::get_if<ingest::WelcomeReply>(&reply))
        welcomed_[welcome->session] = welcome->welcomed;
      else if (const auto* ack = std::get_if<ingest::AckReply>(&reply)) {
        std::uint64_t& acked = acked_[ack->source];
        EXPECT_GE(ack->committed_seq, acked) << "an ack was overtaken";
        acked = ack->committed_seq;
      }
    }
  }
  void push(ingest::Message message) {
    while (!queue_.push(message)) std::this_thread::yield();
  }
  core::Welcomed greet(Rank rank) {
    const auto id = static_cast<ingest::SessionId>(rank + 1);
    push(ingest::HelloMessage{.session = id,
                              .hello = {.run = "job",
                                        .rank = rank,
                                        .source_id = "source" + std::to_string(rank),
                                        .origin = std::to_string(rank)},
                              .layouts = {layout_of_forward()}});
    for (;; std::this_thread::yield()) {
      const std::scoped_lock lock(mutex_);
      if (const auto it = welcomed_.find(id); it != welcomed_.end()) return it->second;
    }
  }
  void send(Rank rank, const core::Welcomed& welcomed) {
    std::uint64_t seq = 1;
    push(ingest::ItemsMessage{welcomed.source,
                              {.first_seq = seq++, .what = core::ConfigItem{kRanks, R"({"world_size":8})"}}});
    const Layout layout = layout_of_forward();
    for (Step first = 1; first <= kSteps; first += kStepsPerMessage) {
      PackedRecords records;
      for (Step step = first; step < first + kStepsPerMessage; ++step) {
        const std::vector<double> doubles{10.0 + rank, 8.0};
        records.append({.step = step, .rank = rank, .layout = &layout, .doubles = doubles}, 0);
      }
      push(ingest::ItemsMessage{welcomed.source, {.first_seq = seq, .what = std::move(records)}});
      seq += kStepsPerMessage;
    }
  }
  std::uint64_t acked(core::SourceKey source) {
    const std::scoped_lock lock(mutex_);
    return acked_[source];
  }
  std::shared_ptr<const core::AttemptView> attempt() const { return engine_->snapshot()->runs.at(0)->newest; }

  const std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / ("laggard-engine-test-" + std::to_string(::getpid()));
  ingest::Server::Queue queue_{64};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::Archive> archive_;
  std::mutex mutex_;
  std::map<ingest::SessionId, core::Welcomed> welcomed_;  // guarded by mutex_
  std::map<core::SourceKey, std::uint64_t> acked_;        // guarded by mutex_
  std::atomic<int> published_ = 0, turned_ = 0;
  std::atomic<bool> hang_ = false, hangs_ = false;  // at its next snapshot; it does
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, WhatManyThreadsSendIsDurableWhenItIsAcknowledged) {
  std::vector<std::thread> senders;
  std::atomic<bool> done = false;
  // Reads what the engine publishes while it goes on.
  std::thread reader([&] {
    while (!done) {
      const auto snapshot = engine_->snapshot();
      for (const auto& run : snapshot->runs)
        if (run->newest != nullptr && run->newest->settled != nullptr) {
          EXPECT_EQ(run->newest->settled->breakdown.present, kRanks);
        }
    }
  });
  for (Rank rank = 0; rank < kRanks; ++rank) senders.emplace_back([this, rank] { send(rank, greet(rank)); });
  for (std::thread& sender : senders) sender.join();
  for (core::SourceKey source = 1; source <= kRanks; ++source)
    while (acked(source) < kSteps + 1) std::this_thread::yield();
  done = true;
  reader.join();
  EXPECT_GT(published_, 0);
  EXPECT_EQ(attempt()->steps_by_state.at(core::StepState::complete), static_cast<std::uint64_t>(kSteps));

  restart();
  EXPECT_EQ(attempt()->counts.stored, (kSteps + 1U) * kRanks);
  EXPECT_EQ(attempt()->settled->breakdown.wall.max, 10.0 + kRanks - 1);
  EXPECT_EQ(greet(0).committed_seq, kSteps + 1U);
}

TEST_F(EngineTest, AnEngineThatHangsDoesNotTurn) {
  const auto wait_past = [](const std::atomic<int>& count, int value) {
    while (count <= value) std::this_thread::yield();
  };
  wait_past(turned_, turned_ + 3);  // without anything to do too
  hang_ = true;
  while (!hangs_) std::this_thread::yield();
  const int hung_at = turned_;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // ten turns of one that goes on
  EXPECT_EQ(turned_, hung_at);
  hang_ = false;
  hang_.notify_all();
  wait_past(turned_, hung_at);
}

TEST_F(EngineTest, AStopMakesOpenStepsDurable) {
  const core::Welcomed welcomed = greet(0);
  send(0, welcomed);  // seven ranks are missing
  engine_->stop();
  EXPECT_EQ(acked(welcomed.source), kSteps + 1U);
  restart();
  EXPECT_EQ(greet(0).committed_seq, kSteps + 1U);
}

TEST_F(EngineTest, ARunIsClosedFromAnyThreadAndThatIsDurable) {
  greet(0);  // no records: one that comes later would open the run again
  std::thread([this] { engine_->close_run("job"); }).join();
  restart();
  EXPECT_TRUE(engine_->snapshot()->runs.at(0)->closed);
  EXPECT_THROW(engine_->close_run("no such run"), Error);
  engine_->stop();
  EXPECT_THROW(engine_->close_run("job"), Error);
}

}  // namespace
}  // namespace laggard::app
