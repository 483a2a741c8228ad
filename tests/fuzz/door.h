// The collector behind its socket: what comes in at the door, the core behind it, and what is answered about
// it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/collector.h"
#include "daemon/ingest/sessions.h"
#include "tests/support/records.h"

namespace laggard::fuzz {

/// Takes messages as the ingest and engine threads together would, with a clock that counts and a store in
/// memory.
class Door {
 public:
  /// Hands one message in; answers it, as the engine would, and lets a little time pass. What is to be sent
  /// to the peer is added to `answers`.
  void receive(std::string_view bytes, std::vector<std::string>* answers);
  /// Makes everything durable, and looks at it in every way there is: as snapshot, pages and answers, and
  /// once more as a collector that starts from what was stored.
  void finish();

  ingest::Counts counts() const { return sessions_.counts(); }
  /// What became of the items of all attempts in memory: the sum of every count.
  std::uint64_t items_accounted_for();

 private:
  void handle(const ingest::Message& message, std::vector<std::string>* answers);
  void answer(const ingest::Reply& reply, std::vector<std::string>* answers);
  void commit(std::int64_t max_wait_ms, std::vector<std::string>* answers);

  core::Options options_;
  test::MemoryArchive archive_;
  core::UnixMs now_ = 1'700'000'000'000;
  ingest::Sessions sessions_{"collector"};
  std::unique_ptr<core::Collector> collector_ =
      std::make_unique<core::Collector>(options_, core::Restored{}, archive_, now_);
};

}  // namespace laggard::fuzz
