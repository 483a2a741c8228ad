// The engine thread: the one that changes the state of runs.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/app/store_thread.h"
#include "daemon/base/bounded_queue.h"
#include "daemon/core/collector.h"
#include "daemon/ingest/messages.h"
#include "daemon/ingest/server.h"
#include "daemon/store/store.h"

namespace laggard::app {

/// Feeds the collector from the ingest queue, commits in groups, hands acks back after each commit and
/// publishes snapshots. When the database cannot be written it goes on showing live figures, acknowledges
/// nothing, and tries again.
class Engine {
 public:
  struct Callbacks {
    std::function<void(std::vector<ingest::Reply>)> reply;
    std::function<void()> drained;  ///< the queue has room again
    std::function<ingest::Counts()> ingest_counts;
    std::function<ingest::ConnectionCounts()> connection_counts;
    std::function<void()> published;       ///< a new snapshot is there
    std::function<void()> failed;          ///< the engine cannot go on; called on its thread
    std::function<void()> turned = [] {};  ///< once in each turn of its loop, at least every 0.1 s
  };

  /// Reads what was stored. `store`, `archive`, `queue` and what the callbacks use must outlive the engine.
  Engine(const core::Options& options, core::Restored restored, store::Store& store,
         core::StepArchive& archive, ingest::Server::Queue& queue, std::function<core::UnixMs()> now);
  ~Engine();

  void start(Callbacks callbacks);
  /// Takes what is in the queue, makes everything durable, hands out the last acks and ends the thread.
  void stop();

  /// Never null. Any thread.
  std::shared_ptr<const core::Snapshot> snapshot() const;
  /// Close a run by hand, or delete it with all that is stored of it. Both return when that is durable, and
  /// throw Error when it cannot be made so. Any thread.
  void close_run(const std::string& name);
  void delete_run(const std::string& name);

 private:
  struct Request;

  void run();
  void loop();
  bool may_take() const;
  std::vector<ingest::Message> next_messages(bool stopping);
  void tick(core::UnixMs now, bool stopping);
  void handle(ingest::Message& message);
  void handle(const ingest::HelloMessage& message);
  void handle(const ingest::ItemsMessage& message);
  void ask(const std::shared_ptr<Request>& request);
  void take_requests();
  void take(const std::shared_ptr<Request>& request);
  void refuse_requests();
  void commit_and_publish(core::UnixMs now);
  bool commit_is_due(core::UnixMs now) const;
  void begin_commit(core::UnixMs now, std::int64_t max_wait_ms);
  void finish_commit(core::UnixMs now);
  void committed(core::UnixMs now);
  void not_committed(const std::string& why);
  void keep_up(const store::Upkeep& upkeep, core::UnixMs now);
  void commit_all(core::UnixMs now);
  void publish(core::UnixMs now);

  ingest::Server::Queue& queue_;
  const std::function<core::UnixMs()> now_;
  core::Collector collector_;
  Callbacks callbacks_;
  StoreThread storing_;  // after the collector, whose blocks a commit under way reads

  // Of the engine thread.
  core::UnixMs last_tick_ = 0, last_commit_ = 0, last_publish_ = 0;
  core::UnixMs next_upkeep_ = 0;
  core::UnixMs stored_until_ = 0;  // when the last commit that worked began
  core::UnixMs listening_since_ = 0;
  bool changed_ = true;       // since the last snapshot
  bool uncommitted_ = false;  // since the last commit began
  // Items taken that are not durable, and how many of them the commit under way is for.
  std::uint64_t items_held_ = 0, items_storing_ = 0;
  std::uint64_t commits_failed_ = 0;
  std::string commit_error_;  // "" when the last one worked
  bool stuck_ = false;        // as last logged: retention finds nothing more that may go
  std::vector<std::shared_ptr<Request>> to_store_, storing_requests_;  // the latter in the commit under way

  mutable std::mutex mutex_;
  std::shared_ptr<const core::Snapshot> snapshot_;  // guarded by mutex_
  std::vector<std::shared_ptr<Request>> requests_;  // guarded by mutex_
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace laggard::app
