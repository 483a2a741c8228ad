#include "daemon/app/store_thread.h"

#include <spdlog/spdlog.h>

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

void StoreThread::begin(core::Writes writes, core::UnixMs now) {
  busy_ = true;
  now_ = now;
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

std::optional<StoreThread::Result> StoreThread::take_result() {
  std::optional<Result> result;
  {
    const std::scoped_lock lock(mutex_);
    result = std::exchange(result_, std::nullopt);
  }
  if (!result.has_value()) return result;
  busy_ = false;
  writes_ = {};
  return result;
}

StoreThread::Result StoreThread::commit() {
  Result result;
  try {
    store_.commit(writes_);
  } catch (const Error& error) {
    result.why = error.what();
    return result;
  }
  std::string problem;
  try {
    result.upkeep = store_.upkeep(now_);
  } catch (const Error& error) {  // what was to be stored is: the rest can wait
    problem = error.what();
  }
  if (!problem.empty() && problem != upkeep_problem_)
    spdlog::warn("{}; old steps are kept until it can be written", problem);
  upkeep_problem_ = std::move(problem);
  return result;
}

void StoreThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return to_do_ || stopping_; });
    if (!to_do_) return;
    lock.unlock();
    Result result = commit();
    lock.lock();
    to_do_ = false;
    result_ = std::move(result);
    changed_.notify_all();
    lock.unlock();
    finished_();
    lock.lock();
  }
}

}  // namespace laggard::app
