// How long the device was at a stage: two events on its stream, read when the device has passed them.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <deque>
#include <vector>

#include "agent/api/cuda_runtime.h"
#include "agent/api/recorder.h"
#include "daemon/base/limits.h"

namespace laggard::agent {

/// Never waits for the device: events are asked for a step later at the earliest, and what is not done when
/// its step has to go has no stream time. For the thread that measures, beside its recorder, which must hold
/// limits::kDeviceHeldSteps steps.
class DeviceTimer {
 public:
  /// `lost` counts stages of a step that could not be timed.
  DeviceTimer(const CudaRuntime& cuda, Recorder& recorder, std::atomic<std::uint64_t>& lost);
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  // Beside the recorder's calls of these names, after them.
  void stage_begin(int stage, CudaRuntime::Stream stream);
  void stage_end(int stage, CudaRuntime::Stream stream);
  /// A stage whose end names no stream ends on that on which it began.
  void stage_end(int stage);
  void stage_drop(int stage);

  /// Before the recorder ends a step, which may hand over the oldest one it holds.
  void make_room();
  /// After that: what was timed belongs to `step`. Hands earlier steps over whose events are done.
  void step_ended(Step step);
  /// No further step comes: hands all over, with what is done.
  void finish();

 private:
  using Event = CudaRuntime::Event;
  struct Call {
    NameId stage;
    Event begin, end;  // null: it could not be timed
    bool is_error;     // a reason to count it
  };
  struct Open {
    NameId stage;
    Event begin;
    CudaRuntime::Stream stream;
    bool inside_itself, is_error;
  };
  struct StepCalls {
    Step step = 0;
    std::vector<Call> calls;
    std::bitset<limits::kMaxApiNames> beyond;  // stages with more calls than there was room for
    std::size_t done = 0;                      // calls whose end the device has passed
  };
  enum class Outcome : std::uint8_t { untouched, timed, untimed, failed };

  bool is_off() const { return failures_ >= kMostFailures; }
  Event record(CudaRuntime::Stream stream, bool* is_error);
  Event take_event();
  void give_back(Event event);
  void destroy(Event event);
  bool is_done(StepCalls& step);
  void settle(StepCalls& step);
  double elapsed_ms(const Call& call);
  void close_innermost(CudaRuntime::Stream stream);
  std::size_t depth_of(int stage) const;

  static constexpr int kMostFailures = 64;  // in a row; then there is no device, or none of ours

  const CudaRuntime cuda_;
  Recorder& recorder_;
  std::atomic<std::uint64_t>& lost_;
  std::vector<Event> free_;
  std::array<Open, limits::kMaxStageDepth> open_;
  std::size_t depth_ = 0;
  StepCalls current_;
  std::deque<StepCalls> ended_;
  std::vector<std::vector<Call>> spare_;  // lists to be used again
  int failures_ = 0;
  bool has_timed_ = false;  // so there is a device, or was one
  std::vector<double> sum_ms_;
  std::vector<Outcome> outcome_;
};

}  // namespace laggard::agent
