// The only way two threads of the daemon hand work to each other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace laggard {

/// A queue with an end: whoever fills it has to cope with push() saying no.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// False, and `item` untouched, when the queue is full.
  [[nodiscard]] bool push(T& item) {
    {
      const std::scoped_lock lock(mutex_);
      if (items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// Everything in the queue, in order; waits up to `timeout` for a first item.
  std::vector<T> pop_all(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [&] { return !items_.empty() || woken_; });
    woken_ = false;
    return std::exchange(items_, {});
  }

  /// Ends a wait of pop_all() although nothing came.
  void wake() {
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    ready_.notify_one();
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<T> items_;  // guarded by mutex_
  bool woken_ = false;    // guarded by mutex_
};

}  // namespace laggard
