#include "agent/api/ring.h"

namespace laggard::agent {

Ring::Ring(std::size_t words)
    : capacity_(words), mask_(words - 1), words_(std::make_unique<std::atomic<std::uint64_t>[]>(words)) {}

bool Ring::push(std::span<const std::uint64_t> item) {
  const std::uint64_t needed = item.size() + 1;
  if (needed > capacity_ / 2) return false;
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  std::uint64_t tail = tail_.load(std::memory_order_acquire);
  while (head + needed - tail > capacity_) drop_oldest(&tail);
  word(head).store(item.size(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < item.size(); ++i) word(head + 1 + i).store(item[i], std::memory_order_relaxed);
  head_.store(head + needed, std::memory_order_release);
  return true;
}

// The reader may take the same item just now. Then it has moved the place, the exchange fails, and there is
// room as well.
void Ring::drop_oldest(std::uint64_t* tail) {
  const std::uint64_t length = word(*tail).load(std::memory_order_relaxed);
  const std::uint64_t next = *tail + 1 + length;
  if (tail_.compare_exchange_strong(*tail, next, std::memory_order_acq_rel, std::memory_order_acquire))
    *tail = next;
}

// Copies first and claims then: what was copied while the writer dropped it, and wrote over it, is not
// claimed and thrown away. The words are atomic so that this reading is defined; it costs nothing.
bool Ring::pop(std::vector<std::uint64_t>* item) {
  std::uint64_t tail = tail_.load(std::memory_order_acquire);
  for (;;) {
    if (tail == head_.load(std::memory_order_acquire)) return false;
    const std::uint64_t length = word(tail).load(std::memory_order_relaxed);
    if (length < capacity_) {
      item->resize(length);
      for (std::size_t i = 0; i < length; ++i)
        (*item)[i] = word(tail + 1 + i).load(std::memory_order_relaxed);
      if (tail_.compare_exchange_strong(tail, tail + 1 + length, std::memory_order_acq_rel,
                                        std::memory_order_acquire))
        return true;
    } else {
      tail = tail_.load(std::memory_order_acquire);
    }
  }
}

}  // namespace laggard::agent
