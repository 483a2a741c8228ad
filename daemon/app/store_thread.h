// The thread that writes the database, so that the engine goes on while a disk makes a commit durable.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "daemon/core/writes.h"
#include "daemon/store/store.h"

namespace laggard::app {

/// Commits one group at a time. All methods are for one thread, the engine's.
class StoreThread {
 public:
  /// `finished` is called on the storing thread when a commit is over. `store` must outlive this.
  StoreThread(store::Store& store, std::function<void()> finished);
  /// Waits for a commit under way.
  ~StoreThread();

  /// Begins a commit; the one before must be over, and its result taken. `now` is what ages are measured by.
  void begin(core::Writes writes, core::UnixMs now);
  bool is_busy() const { return busy_; }
  /// Whether the commit under way is over by then.
  bool wait(std::chrono::milliseconds timeout);
  struct Result {
    std::string why;  ///< it failed; "" when it is durable
    store::Upkeep upkeep;
  };
  /// The result of the commit that is over, once. Nothing while it is still under way, or when there is none.
  std::optional<Result> take_result();

 private:
  void loop();
  Result commit();

  store::Store& store_;
  const std::function<void()> finished_;
  bool busy_ = false;  // of the engine thread, as are the writes whenever nothing is to be done
  core::Writes writes_;
  core::UnixMs now_ = 0;
  std::string upkeep_problem_;  // of the storing thread: as last logged

  std::mutex mutex_;
  std::condition_variable changed_;
  bool to_do_ = false;            // guarded by mutex_
  bool stopping_ = false;         // guarded by mutex_
  std::optional<Result> result_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace laggard::app
