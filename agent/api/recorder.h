// The calling thread's side: what is measured becomes one record a step.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "agent/api/names.h"
#include "agent/api/ring.h"
#include "agent/api/step_record.h"
#include "daemon/base/limits.h"

namespace laggard::agent {

/// Counted on the calling thread; any thread may read.
struct CallCounts {
  std::atomic<std::uint64_t> recorded{0};  ///< steps ended, of which some may be held yet
  std::atomic<std::uint64_t> ignored{0};   ///< calls that made no sense
};

/// Measures steps and puts their records into the ring. For one thread; time is passed in, in ns of a
/// monotonic clock. Once every name has been used it allocates nothing.
class Recorder {
 public:
  using Ns = std::int64_t;

  /// The `held_steps` newest finished steps wait for device times before they are handed over.
  Recorder(Names& names, Ring& ring, CallCounts& counts, std::size_t held_steps);

  /// A step below 0 is the one after the last.
  void step_begin(Step step, Ns now);
  void step_end(Ns now);
  void stage_begin(int stage, Ns now);
  void stage_end(int stage, Ns now);
  /// The call of this stage that is open never was.
  void stage_drop(int stage, Ns now);
  void device_ms(int stage, Step step, double ms);
  void release(Step step);
  void release_all() { hand_over(0); }
  bool in_step() const { return in_step_; }
  /// The one that is measured, or was last.
  Step last_step() const { return last_step_; }
  void count(int id, std::int64_t amount);
  void value(int id, double number);
  void tag(std::string_view name);
  void samples(std::span<const std::int64_t> ids);

 private:
  template <typename T>
  struct Named {
    T number{};
    bool set = false;
  };
  // A step that is being measured, or held.
  struct StepState {
    StepState();
    Step step = 0;
    Ns begin = 0, wall = 0;
    bool begun = false;  // `begin` is known
    std::uint64_t tags = 0;
    std::unique_ptr<StageTotals[]> stages;
    std::unique_ptr<Named<std::int64_t>[]> counts;
    std::unique_ptr<Named<double>[]> values;
    std::vector<std::int64_t> samples;
  };
  struct Open {
    NameId stage;
    Ns begin;
    bool began_wall;  // between two steps, as the first
  };

  void ignore() { add(counts_.ignored); }
  // No other thread writes it, so that it needs no read-modify-write.
  static void add(std::atomic<std::uint64_t>& count) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  bool knows_stage(int stage) {
    return static_cast<std::size_t>(static_cast<unsigned>(stage)) < names_.stages.size();
  }
  void learn_parent(NameId stage);
  bool is_open(int stage);
  void close_inside(NameId stage, Ns now);
  void close_innermost(Ns now);
  StepState& current() { return steps_[newest_]; }
  StepState* held_step(Step step);
  void hand_over(std::size_t most_held);
  void write(StepState& step);

  Names& names_;
  Ring& ring_;
  CallCounts& counts_;
  RecordWriter writer_;

  std::vector<StepState> steps_;  // in turn; the newest is being measured, `held_` before it wait
  std::size_t newest_ = 0, held_ = 0;
  bool in_step_ = false;
  Step last_step_ = 0;
  std::uint64_t ordinal_ = 0;

  std::array<Open, limits::kMaxStageDepth> open_;
  std::size_t depth_ = 0;
  std::size_t too_deep_ = 0;                                 // stages begun beyond the most that nest
  std::array<std::uint8_t, limits::kMaxApiNames> active_{};  // how often a stage stands in open_
};

}  // namespace laggard::agent
