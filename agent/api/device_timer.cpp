#include "agent/api/device_timer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/api/log_sink.h"

namespace laggard::agent {
namespace {

constexpr unsigned kTimed = 0;  // cudaEventDefault

// Some of these calls would break the capture of a graph that goes on in this thread.
class DuringCapture {
 public:
  explicit DuringCapture(const CudaRuntime& cuda) : cuda_(cuda) { cuda_.exchange_capture_mode(&mode_); }
  ~DuringCapture() { cuda_.exchange_capture_mode(&mode_); }
  DuringCapture(const DuringCapture&) = delete;
  DuringCapture& operator=(const DuringCapture&) = delete;

 private:
  const CudaRuntime& cuda_;
  int mode_ = CudaRuntime::kRelaxedCapture;
};

}  // namespace

DeviceTimer::DeviceTimer(const CudaRuntime& cuda, Recorder& recorder, std::atomic<std::uint64_t>& lost)
    : cuda_(cuda),
      recorder_(recorder),
      lost_(lost),
      sum_ms_(limits::kMaxApiNames),
      outcome_(limits::kMaxApiNames, Outcome::untouched) {}

DeviceTimer::~DeviceTimer() {
  for (const Event event : free_) destroy(event);
}

// ---- events ----

// CUDA remembers the last error of a thread, and the job would take ours for its own.
void DeviceTimer::destroy(Event event) {
  if (event != nullptr && cuda_.event_destroy(event) != CudaRuntime::kSuccess) cuda_.last_error();
}

void DeviceTimer::give_back(Event event) {
  if (event != nullptr) free_.push_back(event);
}

CudaRuntime::Event DeviceTimer::take_event() {
  Event event = nullptr;
  if (!free_.empty()) {
    event = free_.back();
    free_.pop_back();
  } else if (cuda_.event_create(&event, kTimed) != CudaRuntime::kSuccess) {
    cuda_.last_error();
    event = nullptr;
  }
  return event;
}

// Null when the stream is captured, as the event would become a part of the graph, or when it fails.
CudaRuntime::Event DeviceTimer::record(CudaRuntime::Stream stream, bool* is_error) {
  *is_error = has_timed_ && is_off();
  if (is_off()) return nullptr;
  const DuringCapture relaxed(cuda_);
  int capture = CudaRuntime::kNotCapturing;
  if (cuda_.stream_is_capturing(stream, &capture) != CudaRuntime::kSuccess) {
    // The default stream says so while another one is captured.
    cuda_.last_error();
    return nullptr;
  }
  if (capture != CudaRuntime::kNotCapturing) return nullptr;
  const Event event = take_event();
  if (event != nullptr && cuda_.event_record(event, stream) == CudaRuntime::kSuccess) {
    failures_ = 0;
    has_timed_ = true;
    return event;
  }
  if (event != nullptr) cuda_.last_error();
  destroy(event);
  if (!free_.empty()) {
    // It may have been one of a device that this thread has left, and the others are then too.
    for (const Event kept : free_) destroy(kept);
    free_.clear();
    return record(stream, is_error);
  }
  ++failures_;
  if (is_off() && has_timed_)
    make_api_log()->warn(
        "the GPU takes no events any more ({} failures in a row): stages have no device times", failures_);
  *is_error = true;
  return nullptr;
}

// ---- stages ----

// 1 + its place in the stack of open stages, 0 when it is not open.
std::size_t DeviceTimer::depth_of(int stage) const {
  for (std::size_t depth = depth_; depth > 0; --depth)
    if (static_cast<int>(open_[depth - 1].stage) == stage) return depth;
  return 0;
}

void DeviceTimer::stage_begin(int stage, CudaRuntime::Stream stream) {
  if (stage < 0 || static_cast<std::size_t>(stage) >= limits::kMaxApiNames || depth_ == open_.size()) return;
  Open& open = open_[depth_];
  open = {static_cast<NameId>(stage), nullptr, stream, depth_of(stage) > 0, false};
  ++depth_;
  const bool is_full = current_.calls.size() + depth_ > limits::kMaxTimedCalls;
  if (!open.inside_itself && !is_full) open.begin = record(stream, &open.is_error);
}

void DeviceTimer::close_innermost(CudaRuntime::Stream stream) {
  const Open open = open_[--depth_];
  if (open.inside_itself) return;
  Call call{open.stage, open.begin, nullptr, open.is_error};
  if (call.begin != nullptr) call.end = record(stream, &call.is_error);
  if (call.end == nullptr) destroy(std::exchange(call.begin, nullptr));
  if (current_.calls.size() < limits::kMaxTimedCalls)
    current_.calls.push_back(call);
  else
    current_.beyond.set(call.stage);
}

void DeviceTimer::stage_end(int stage, CudaRuntime::Stream stream) {
  const std::size_t depth = depth_of(stage);
  if (depth == 0) return;
  while (depth_ > depth) close_innermost(open_[depth_ - 1].stream);
  close_innermost(stream);
}

void DeviceTimer::stage_end(int stage) {
  if (const std::size_t depth = depth_of(stage); depth > 0) stage_end(stage, open_[depth - 1].stream);
}

void DeviceTimer::stage_drop(int stage) {
  const std::size_t depth = depth_of(stage);
  if (depth == 0) return;
  while (depth_ > depth) close_innermost(open_[depth_ - 1].stream);
  destroy(open_[--depth_].begin);
}

// ---- steps ----

void DeviceTimer::make_room() {
  while (ended_.size() >= limits::kDeviceHeldSteps) {
    settle(ended_.front());
    ended_.pop_front();
  }
}

void DeviceTimer::step_ended(Step step) {
  while (depth_ > 0) close_innermost(open_[depth_ - 1].stream);
  current_.step = step;
  // The step that has just ended is not asked for: the device is most likely at it still.
  while (!ended_.empty() && is_done(ended_.front())) {
    settle(ended_.front());
    ended_.pop_front();
  }
  ended_.push_back(std::move(current_));
  current_ = {};
  if (!spare_.empty()) {
    current_.calls = std::move(spare_.back());
    spare_.pop_back();
  }
}

void DeviceTimer::finish() {
  for (StepCalls& step : ended_) settle(step);
  ended_.clear();
}

bool DeviceTimer::is_done(StepCalls& step) {
  const DuringCapture relaxed(cuda_);
  for (; step.done < step.calls.size(); ++step.done) {
    const Event end = step.calls[step.done].end;
    if (end == nullptr) continue;
    const int result = cuda_.event_query(end);
    if (result == CudaRuntime::kSuccess) continue;
    cuda_.last_error();
    if (result == CudaRuntime::kNotReady) return false;
  }
  return true;
}

// Below 0, or no number, when the device has not done it or says no.
double DeviceTimer::elapsed_ms(const Call& call) {
  float ms = -1;
  const int result = cuda_.event_elapsed(&ms, call.begin, call.end);
  if (result == CudaRuntime::kSuccess) return ms;
  cuda_.last_error();
  return -1;
}

// A stage of which one call could not be timed has no time: the sum of the others is not its time.
void DeviceTimer::settle(StepCalls& step) {
  const DuringCapture relaxed(cuda_);
  for (const Call& call : step.calls) {
    Outcome& outcome = outcome_[call.stage];
    if (call.end == nullptr) {
      outcome = std::max(outcome, call.is_error ? Outcome::failed : Outcome::untimed);
      continue;
    }
    const double ms = elapsed_ms(call);
    const bool is_time = std::isfinite(ms) && ms >= 0;
    outcome = std::max(outcome, is_time ? Outcome::timed : Outcome::failed);
    if (is_time) sum_ms_[call.stage] += ms;
    // One that the device has not passed yet must not be recorded anew; to destroy it is allowed.
    for (const Event event : {call.begin, call.end}) {
      if (is_time)
        give_back(event);
      else
        destroy(event);
    }
  }
  for (const Call& call : step.calls) {
    const Outcome outcome = std::exchange(outcome_[call.stage], Outcome::untouched);
    const double ms = std::exchange(sum_ms_[call.stage], 0);
    if (outcome == Outcome::timed && !step.beyond[call.stage])
      recorder_.device_ms(static_cast<int>(call.stage), step.step, ms);
    if (outcome == Outcome::failed) lost_.fetch_add(1, std::memory_order_relaxed);
  }
  recorder_.release(step.step);
  step.calls.clear();
  step.beyond.reset();
  spare_.push_back(std::move(step.calls));
}

}  // namespace laggard::agent
