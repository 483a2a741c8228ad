// What the HTTP side counts of itself.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace laggard::serve {

struct Counters {
  std::array<std::atomic<std::uint64_t>, 600> answers;    ///< by HTTP status
  std::atomic<std::uint64_t> connections_refused = 0;     ///< over limits::kMaxHttpConnections
  std::atomic<std::uint64_t> connections_unaccepted = 0;  ///< accept() failed, for want of descriptors mostly
  std::atomic<std::uint64_t> requests_broken = 0;         ///< no HTTP, or not finished in time
  std::atomic<std::uint64_t> handshakes_failed = 0;       ///< of TLS, or not finished in time
  std::atomic<std::uint64_t> connections = 0;             ///< open now
  std::atomic<std::uint64_t> event_clients = 0;           ///< reading the event stream now
  std::atomic<std::uint64_t> event_clients_refused = 0;   ///< over limits::kMaxEventClients
  std::atomic<std::uint64_t> event_clients_dropped = 0;   ///< did not read fast enough
  std::atomic<std::uint64_t> events_sent = 0;
  // Series left out of /metrics, summed over scrapes.
  std::atomic<std::uint64_t> series_dropped_runs = 0;  ///< over limits::kMaxMetricRuns
  std::atomic<std::uint64_t> series_dropped_stages =
      0;  ///< over limits::kMaxMetricStages or ...StagesOfAllRuns
  std::atomic<std::uint64_t> series_dropped_ranks = 0;  ///< over limits::kMaxMetricRanks
  std::atomic<std::uint64_t> series_dropped_names = 0;  ///< a name that no label can hold

  void count_answer(unsigned status) {
    if (status < answers.size()) ++answers[status];
  }
};

}  // namespace laggard::serve
