// Device times, on a CUDA runtime that stands in for the real one.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>

#include "agent/api/device_timer.h"
#include "tests/support/fake_cudart.h"

namespace laggard::agent {
namespace {

constexpr int kSomeError = 999, kNoDevice = 100;
constexpr int kForward = 0, kBackward = 1;

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    void* library = ::dlopen(LAGGARD_FAKE_CUDART, RTLD_NOW);
    ASSERT_NE(library, nullptr) << ::dlerror();
    reinterpret_cast<void (*)()>(::dlsym(library, "fake_reset"))();
    device_ = reinterpret_cast<FakeDevice* (*)()>(::dlsym(library, "fake_device"));
    const auto cuda = CudaRuntime::open(LAGGARD_FAKE_CUDART);
    ASSERT_TRUE(cuda.has_value());
    timer_.emplace(*cuda, recorder_, lost_);
    for (const char* name : {"forward", "backward"}) names_.stages.intern(name);
  }
  // No call may leave an error behind, change the mode of captures or wait.
  void TearDown() override {
    EXPECT_EQ(device().last_error, 0);
    EXPECT_EQ(device().capture_mode, 0);
    EXPECT_EQ(device().synchronisations, 0);
  }

  FakeDevice& device() { return *device_(); }
  void begin(int stage, void* stream = nullptr) {
    recorder_.stage_begin(stage, 0);
    timer_->stage_begin(stage, stream);
  }
  void end(int stage, void* stream = nullptr) {
    timer_->stage_end(stage, stream);
    recorder_.stage_end(stage, 0);
  }
  void stage(int stage, double ms) {
    begin(stage);
    device().now_ms += ms;
    end(stage);
  }
  void end_step() {
    timer_->make_room();
    recorder_.step_end(0);
    timer_->step_ended(recorder_.last_step());
  }
  // A step with these stages, in ms.
  void step(const std::vector<std::pair<int, double>>& stages) {
    recorder_.step_begin(-1, 0);
    for (const auto& [id, ms] : stages) stage(id, ms);
    end_step();
  }
  void all_done() { device().done = device().recordings; }

  using Times = std::map<std::string, double>;
  // The stream times of the next step that was handed over; nothing when there is none.
  std::optional<Times> next() {
    if (!ring_.pop(&words_)) return std::nullopt;
    const ParsedLine& update = builder_.build(words_);
    Times out;
    for (std::size_t i = 0; i < update.layout.stream.size(); ++i)
      out[update.layout.stream[i]] = update.doubles[1 + i];
    return out;
  }

  Names names_;
  Ring ring_{1 << 12};
  CallCounts counts_;
  Recorder recorder_{names_, ring_, counts_, limits::kDeviceHeldSteps};
  RecordBuilder builder_{0, names_};
  std::vector<std::uint64_t> words_;
  std::atomic<std::uint64_t> lost_{0};
  std::optional<DeviceTimer> timer_;
  FakeDevice* (*device_)() = nullptr;
};

TEST_F(DeviceTest, AStepIsReadWhenTheNextHasEnded) {
  step({{kForward, 10}, {kBackward, 20}, {kForward, 1}});
  all_done();
  EXPECT_EQ(next(), std::nullopt);
  EXPECT_EQ(device().queries, 0) << "nothing is asked in the step itself";
  step({{kForward, 5}});
  EXPECT_EQ(next(), (Times{{"forward", 11}, {"backward", 20}}));
  EXPECT_EQ(next(), std::nullopt);
  all_done();
  timer_->finish();
  EXPECT_EQ(next(), (Times{{"forward", 5}}));
  EXPECT_EQ(lost_, 0u);
  EXPECT_EQ(counts_.ignored, 0u);
}

TEST_F(DeviceTest, EventsAreUsedAgain) {
  for (int i = 0; i < 100; ++i) {
    step({{kForward, 1}, {kBackward, 1}});
    all_done();
  }
  EXPECT_LE(device().events, 2 * 2 * 3u);
}

TEST_F(DeviceTest, WhatIsNotDoneIsWaitedForByNobody) {
  for (std::size_t i = 0; i < limits::kDeviceHeldSteps; ++i) step({{kForward, 10}});
  EXPECT_EQ(next(), std::nullopt);
  device().done = 1;
  step({{kForward, 10}});
  EXPECT_EQ(next(), Times{}) << "its begin is done, its end is not";
  EXPECT_EQ(lost_, 1u);
  all_done();
  step({{kForward, 10}});
  for (std::size_t i = 0; i < limits::kDeviceHeldSteps; ++i) EXPECT_EQ(next(), (Times{{"forward", 10}}));
  EXPECT_EQ(next(), std::nullopt);
}

TEST_F(DeviceTest, DoneInAnotherOrder) {
  step({{kForward, 10}, {kBackward, 20}});
  step({{kForward, 30}});
  device().done_out_of_order = {3, 4, 5, 6};  // all but the first stage
  step({{kForward, 1}});
  EXPECT_EQ(next(), std::nullopt) << "steps go in their order";
  device().done_out_of_order.insert({1, 2});
  step({{kForward, 1}});
  EXPECT_EQ(next(), (Times{{"forward", 10}, {"backward", 20}}));
  EXPECT_EQ(next(), (Times{{"forward", 30}}));
}

TEST_F(DeviceTest, AnIntervalBelowZeroIsNone) {
  step({{kForward, -1}, {kBackward, 2}});
  all_done();
  step({});
  EXPECT_EQ(next(), (Times{{"backward", 2}}));
  EXPECT_EQ(lost_, 1u);
}

TEST_F(DeviceTest, AStageThatIsNotWholeHasNoTime) {
  recorder_.step_begin(-1, 0);
  stage(kForward, 10);
  device().fails = kSomeError;
  stage(kForward, 10);
  device().fails = 0;
  stage(kForward, 10);
  stage(kBackward, 5);
  end_step();
  all_done();
  step({});
  EXPECT_EQ(next(), (Times{{"backward", 5}}));
  EXPECT_EQ(lost_, 1u);
}

TEST_F(DeviceTest, AQueryThatFails) {
  step({{kForward, 10}});
  device().query_fails = kSomeError;
  step({{kForward, 10}});
  EXPECT_EQ(next(), Times{});
  EXPECT_EQ(lost_, 1u);
}

TEST_F(DeviceTest, WithoutADeviceItGivesUp) {
  device().fails = kNoDevice;
  for (int i = 0; i < 100; ++i) step({{kForward, 10}});
  device().fails = 0;
  device().recordings = 0;
  step({{kForward, 10}});
  EXPECT_EQ(device().recordings, 0u);
  while (const auto times = next()) EXPECT_EQ(times, Times{});
}

// Events that were made on one device are none on another.
TEST_F(DeviceTest, AThreadThatChangesItsDeviceIsTimedThere) {
  for (int i = 0; i < 3; ++i) {
    std::vector<std::pair<int, double>> many(40, {kForward, 1});
    step(many);
  }
  all_done();
  step({});
  while (next().has_value()) continue;
  device().current = 1;
  step({{kForward, 10}});
  all_done();
  timer_->finish();
  next();
  EXPECT_EQ(next(), (Times{{"forward", 10}}));
  EXPECT_EQ(lost_, 0u);
}

TEST_F(DeviceTest, ADeviceThatTakesNoMoreEventsIsSaidAndCounted) {
  step({{kForward, 10}});
  all_done();
  testing::internal::CaptureStderr();
  device().fails = kSomeError;
  for (int i = 0; i < 100; ++i) step({{kForward, 10}});
  device().fails = 0;
  for (int i = 0; i < 10; ++i) step({{kForward, 10}});
  all_done();
  timer_->finish();
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t first = said.find("the GPU takes no events any more");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("the GPU takes no events any more", first + 1), std::string::npos);
  EXPECT_EQ(lost_, 110u);
}

TEST_F(DeviceTest, ACapturedStreamIsLeftAlone) {
  device().capturing = true;
  step({{kForward, 10}});
  device().capturing = false;
  device().capture_fails = kSomeError;
  step({{kForward, 10}});
  device().capture_fails = 0;
  EXPECT_EQ(device().recordings, 0u);
  // Captured in between: neither its end nor its beginning is worth anything.
  recorder_.step_begin(-1, 0);
  begin(kForward);
  device().capturing = true;
  end(kForward);
  device().capturing = false;
  end_step();
  timer_->finish();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), Times{});
  EXPECT_EQ(lost_, 0u) << "that is as it should be";
}

TEST_F(DeviceTest, StagesInsideOthersAndInsideThemselves) {
  recorder_.step_begin(-1, 0);
  begin(kForward);
  device().now_ms += 1;
  begin(kBackward);
  stage(kForward, 2);  // inside itself
  device().now_ms += 4;
  end(kForward);  // ends what is open inside it
  begin(kBackward);
  device().now_ms += 8;
  end_step();  // likewise
  all_done();
  timer_->finish();
  EXPECT_EQ(next(), (Times{{"forward", 7}, {"backward", 14}}));
}

TEST_F(DeviceTest, ADroppedCallNeverWas) {
  begin(kForward);
  timer_->stage_drop(kForward);
  recorder_.stage_drop(kForward, 0);
  step({{kBackward, 3}});
  all_done();
  timer_->finish();
  EXPECT_EQ(next(), (Times{{"backward", 3}}));
}

TEST_F(DeviceTest, TheStreamIsTheCallers) {
  int stream = 0;
  recorder_.step_begin(-1, 0);
  begin(kForward, &stream);
  EXPECT_EQ(device().last_stream, &stream);
  end(kForward);
  EXPECT_EQ(device().last_stream, nullptr);
  begin(kForward, &stream);
  timer_->stage_end(kForward);
  EXPECT_EQ(device().last_stream, &stream);
  end_step();
}

TEST_F(DeviceTest, SoManyCallsAndNoMore) {
  recorder_.step_begin(-1, 0);
  stage(kBackward, 1);
  for (std::size_t i = 0; i <= limits::kMaxTimedCalls; ++i) stage(kForward, 1);
  end_step();
  EXPECT_EQ(device().recordings, 2 * limits::kMaxTimedCalls);
  all_done();
  timer_->finish();
  EXPECT_EQ(next()->at("backward"), 1);
}

TEST(CudaRuntimeTest, TheOneThatIsLoadedIsFoundByWhateverName) {
  const std::filesystem::path copy =
      std::filesystem::temp_directory_path() / ("libcudart-" + std::to_string(::getpid()) + ".so.11.0");
  std::filesystem::copy_file(LAGGARD_FAKE_CUDART, copy);
  void* const loaded = ::dlopen(copy.c_str(), RTLD_NOW);
  ASSERT_NE(loaded, nullptr) << ::dlerror();
  EXPECT_TRUE(CudaRuntime::open("auto").has_value());
  ::dlclose(loaded);
  std::filesystem::remove(copy);
}

TEST(CudaRuntimeTest, WhatIsNoneIsNotTaken) {
  EXPECT_FALSE(CudaRuntime::open("/nowhere/libcudart.so").has_value());
  EXPECT_FALSE(CudaRuntime::open("libc.so.6").has_value());
}

}  // namespace
}  // namespace laggard::agent
