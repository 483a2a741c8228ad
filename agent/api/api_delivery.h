// The thread that delivers what a training process hands over.
#pragma once

#include <spdlog/fwd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/api/names.h"
#include "agent/api/recorder.h"
#include "agent/api/ring.h"
#include "agent/api/settings.h"
#include "agent/api/step_record.h"
#include "agent/collector_link.h"
#include "agent/connection_log.h"
#include "agent/rank_source.h"
#include "agent/session.h"

namespace laggard::agent {

/// What became of the items, written by the delivery; any thread may read.
struct DeliveryCounts {
  std::atomic<std::uint64_t> taken{0};  ///< records out of the ring, or found to be missing there
  std::atomic<std::uint64_t> delivered{0}, dropped{0}, held{0};
  std::atomic<std::uint64_t> settings{0};  ///< 1 while settings wait to become an item
  std::atomic<bool> connected{false};
};

/// What the calling thread and the delivery share.
struct Handover {
  Names names;
  Ring ring{limits::kApiRingBytes / sizeof(std::uint64_t)};
};

/// Empties the ring into the delivery window of one source and delivers that as an agent does.
class ApiDelivery {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  /// `calls` and `counts` outlive the process's last thread. Throws Error for an address that cannot be one.
  ApiDelivery(const ApiSettings& settings, ParsedLine config, std::shared_ptr<Handover> handover,
              const CallCounts& calls, DeliveryCounts& counts);
  ~ApiDelivery();
  ApiDelivery(const ApiDelivery&) = delete;
  ApiDelivery& operator=(const ApiDelivery&) = delete;

  /// Runs it on a thread of its own, which takes no signals and keeps `delivery` alive: nobody has to wait
  /// for it, and so nobody hangs with it.
  static void start(const std::shared_ptr<ApiDelivery>& delivery);

  // For other threads.
  /// Something was put into the ring.
  void wake_if_asleep();
  void set_config(ParsedLine config);
  /// Waits until all that is in the ring is delivered; false when that took longer than to `limit`.
  bool flush(Time limit);
  /// Ends the thread; `ended`: the rank has finished on purpose. False when something was not delivered until
  /// `limit`.
  bool stop(Time limit, bool ended);
  bool is_gone();

 private:
  void run();
  void deliver();
  void note_connection(Time now);
  void receive(Time now);
  bool drain(Time now);
  void take_config();
  void tell_stages(Time now);
  void take(const std::vector<std::uint64_t>& words);
  void send(Time now);
  void note_drops();
  void publish();
  void note_settled();
  /// With mutex_.
  bool is_settled() const { return handover_->ring.empty() && source_->held() == 0 && !config_.has_value(); }
  bool is_done(Time now);
  void wait(Time now);
  void wake() const;
  void say_bye();

  const ApiSettings settings_;
  const std::shared_ptr<Handover> handover_;
  const CallCounts& calls_;
  DeliveryCounts& counts_;
  const std::shared_ptr<spdlog::logger> log_;
  const int wake_fd_;
  std::optional<CollectorLink> link_;
  ConnectionLog connection_log_;
  const std::unique_ptr<RankSource> source_;
  Session session_;
  RecordBuilder builder_;

  const Time started_ = Clock::now();
  Time next_drain_{}, next_greeting_{};
  std::uint64_t taken_ = 0;
  std::uint32_t stage_version_ = 0;
  std::vector<std::uint64_t> words_;
  bool end_added_ = false;
  std::uint64_t shapeless_ = 0;     // records dropped for what they are, and not for want of room
  bool dropping_ = false;           // as last logged
  std::uint64_t dropped_said_ = 0;  // likewise

  std::atomic<bool> asleep_{false};  // a record has to wake the thread
  std::atomic<bool> hurry_{false};   // somebody waits, or there is a config
  std::atomic<bool> ended_{false};
  std::atomic<Clock::rep> stop_at_{0};  // 0: not to stop

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ParsedLine> config_;           // guarded by mutex_
  std::uint64_t asked_ = 0, settled_ = 0;      // flushes; guarded by mutex_
  bool gone_ = false, all_delivered_ = false;  // guarded by mutex_
};

}  // namespace laggard::agent
