#include "daemon/app/store_thread.h"

#include <utility>

#include "daemon/base/error.h"

namespace laggard::app {

StoreThread::StoreThread(store::Store& store, std::function<void()> finished)
    : store_(store), finished_(std::move(finished)), thread_([this] { loop(); }) {}

StoreThread::~StoreThread() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreThread::begin(core::Writes writes) {
  busy_ = true;
  writes_ = std::move(writes);
  {
    const std::scoped_lock lock(mutex_);
    to_do_ = true;
  }
  changed_.notify_all();
}

bool StoreThread::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return result_.has_value(); });
}

std::optional<std::string> StoreThread::take_result() {
  std::optional<std::string> result;
  {
    const std::scoped_lock lock(mutex_);
    result = std::exchange(result_, std::nullopt);
  }
  if (!result.has_value()) return result;
  busy_ = false;
  writes_ = {};
  return result;
}

void StoreThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return to_do_ || stopping_; });
    if (!to_do_) return;
    lock.unlock();
    std::string why;
    try {
      store_.commit(writes_);
    } catch (const Error& error) {
      why = error.what();
    }
    lock.lock();
    to_do_ = false;
    result_ = std::move(why);
    changed_.notify_all();
    lock.unlock();
    finished_();
    lock.lock();
  }
}

}  // namespace laggard::app
