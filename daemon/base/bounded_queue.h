// The only way two threads of the daemon hand work to each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <iterator>
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

  /// The first items, at most so many; waits up to `timeout` for one.
  std::vector<T> pop(std::size_t most, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [&] { return !items_.empty() || woken_; });
    woken_ = false;
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(std::min(most, items_.size()));
    std::vector<T> popped(std::make_move_iterator(items_.begin()), std::make_move_iterator(end));
    items_.erase(items_.begin(), end);
    return popped;
  }

  /// Ends a wait of pop() although nothing came.
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
  std::deque<T> items_;  // guarded by mutex_
  bool woken_ = false;   // guarded by mutex_
};

}  // namespace laggard
