// What the calling thread has handed over and the delivery has not yet taken.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace laggard::agent {

/// Items of 64-bit words between two threads, without a lock and without a call to the allocator by the one
/// that writes. When there is no room, the oldest items make it. Exactly one thread pushes, one pops.
class Ring {
 public:
  /// `words` is a power of two.
  explicit Ring(std::size_t words);

  /// For the writer. False, and nothing done, when the item is larger than half of the ring.
  bool push(std::span<const std::uint64_t> item);
  /// For the reader: the oldest item; false when there is none.
  bool pop(std::vector<std::uint64_t>* item);
  bool empty() const {
    return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::size_t kCacheLine = 64;

  // An item is a word with its length, then its words. The two places count up for ever.
  std::atomic<std::uint64_t>& word(std::uint64_t place) { return words_[place & mask_]; }
  void drop_oldest(std::uint64_t* tail);

  const std::uint64_t capacity_, mask_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};  // moved by the writer
  // Moved by the reader that took an item and by the writer that dropped one. Who moves it has the item.
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace laggard::agent
