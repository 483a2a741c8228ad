#include "agent/api/recorder.h"

#include <gtest/gtest.h>

#include <thread>

#include "daemon/base/limits.h"

namespace laggard::agent {
namespace {

using testing::Test;

constexpr Recorder::Ns kMs = 1'000'000;

class RecorderTest : public Test {
 protected:
  // The next record as it would be delivered.
  const ParsedLine& next() {
    EXPECT_TRUE(ring_.pop(&words_));
    return builder_.build(words_);
  }
  int stage(const char* name) { return static_cast<int>(*names_.stages.intern(name)); }
  int count(const char* name) { return static_cast<int>(*names_.counts.intern(name)); }
  int value(const char* name) { return static_cast<int>(*names_.values.intern(name)); }
  std::int32_t parent(int id) { return names_.stage_info[static_cast<std::size_t>(id)].parent; }
  void step(Recorder& recorder, Step number = -1) {
    recorder.step_begin(number, 0);
    recorder.step_end(kMs);
  }

  Names names_;
  Ring ring_{1 << 12};
  CallCounts counts_;
  Recorder recorder_{names_, ring_, counts_, 0};
  RecordBuilder builder_{3, names_};
  std::vector<std::uint64_t> words_;
};

using Names_ = std::vector<std::string>;

TEST_F(RecorderTest, AStepWithEverything) {
  const int forward = stage("forward"), attention = stage("attention");
  const int samples = count("samples"), loss = value("loss");
  recorder_.step_begin(7, 10 * kMs);
  recorder_.stage_begin(forward, 11 * kMs);
  for (int i = 0; i < 2; ++i) {
    recorder_.stage_begin(attention, (12 + 2 * i) * kMs);
    recorder_.stage_end(attention, (13 + 2 * i) * kMs);
  }
  recorder_.stage_end(forward, 20 * kMs);
  recorder_.device_ms(attention, -1, 1.5);
  recorder_.device_ms(attention, 7, 2);
  recorder_.count(samples, 3);
  recorder_.count(samples, 4);
  recorder_.value(loss, 1);
  recorder_.value(loss, 0.25);
  recorder_.tag("eval");
  recorder_.samples(std::vector<std::int64_t>{5, -6});
  recorder_.samples(std::vector<std::int64_t>{7});
  recorder_.step_end(30 * kMs);

  const ParsedLine& update = next();
  EXPECT_EQ(update.kind, LineKind::update);
  EXPECT_EQ(update.rank, 3u);
  EXPECT_EQ(update.step, 7);
  EXPECT_EQ(update.layout.stream, Names_{"attention"});
  EXPECT_EQ(update.layout.host, (Names_{"forward", "attention"}));
  EXPECT_EQ(update.layout.calls, (Names_{"forward", "attention"}));
  EXPECT_EQ(update.doubles, (std::vector<double>{20, 3.5, 9, 2, 0.25}));
  EXPECT_EQ(update.ints, (std::vector<std::int64_t>{1, 2, 7}));
  EXPECT_EQ(update.sample_indices, (std::vector<std::int64_t>{5, -6, 7}));
  EXPECT_EQ(update.rest.tags, Names_{"eval"});
  EXPECT_EQ(parent(forward), Names::kNoParent);
  EXPECT_EQ(parent(attention), forward);
  EXPECT_EQ(counts_.recorded, 1u);
  EXPECT_EQ(counts_.ignored, 0u);
}

TEST_F(RecorderTest, NothingStaysFromTheStepBefore) {
  const int forward = stage("forward");
  recorder_.step_begin(-1, 0);
  recorder_.stage_begin(forward, 0);
  recorder_.stage_end(forward, kMs);
  recorder_.count(count("samples"), 1);
  recorder_.value(value("loss"), 1);
  recorder_.tag("eval");
  recorder_.samples(std::vector<std::int64_t>{1});
  recorder_.step_end(kMs);
  step(recorder_);
  const std::uint64_t version = next().layout_version;
  const ParsedLine& second = next();
  EXPECT_EQ(second.step, 2);
  EXPECT_EQ(second.layout, Layout{});
  EXPECT_NE(second.layout_version, version);
  EXPECT_EQ(second.doubles, std::vector<double>{1});
  EXPECT_TRUE(second.ints.empty() && second.sample_indices.empty() && second.rest.empty());
}

TEST_F(RecorderTest, TheSameShapeIsTheSameLayout) {
  const int forward = stage("forward"), extra = stage("extra");
  const auto measure = [&](int id) {
    recorder_.step_begin(-1, 0);
    recorder_.stage_begin(id, 0);
    recorder_.stage_end(id, kMs);
    recorder_.step_end(kMs);
    return next().layout_version;
  };
  const std::uint64_t first = measure(forward);
  EXPECT_EQ(measure(forward), first);
  EXPECT_NE(measure(extra), first);
}

TEST_F(RecorderTest, WhatStandsBetweenTwoStepsBelongsToTheNext) {
  const int load = stage("load");
  recorder_.stage_begin(load, 100 * kMs);
  recorder_.stage_end(load, 150 * kMs);
  recorder_.step_begin(1, 151 * kMs);
  recorder_.step_end(200 * kMs);
  step(recorder_, 2);
  EXPECT_EQ(next().doubles, (std::vector<double>{100, 50}));
  EXPECT_EQ(next().doubles, std::vector<double>{1});
}

TEST_F(RecorderTest, AStepEndsWhereTheNextBegins) {
  recorder_.step_begin(-1, 0);
  recorder_.step_begin(-1, 5 * kMs);
  recorder_.step_end(7 * kMs);
  EXPECT_EQ(next().doubles, std::vector<double>{5});
  EXPECT_EQ(next().doubles, std::vector<double>{2});
  EXPECT_EQ(counts_.ignored, 0u);
}

TEST_F(RecorderTest, StagesThatAreNotEndedInOrder) {
  const int outer = stage("outer"), inner = stage("inner"), other = stage("other");
  recorder_.step_begin(1, 0);
  recorder_.stage_end(outer, 0);  // not begun
  recorder_.stage_begin(outer, 0);
  recorder_.stage_begin(inner, kMs);
  recorder_.stage_end(other, kMs);      // not begun
  recorder_.stage_end(outer, 3 * kMs);  // ends the inner one too
  recorder_.stage_begin(other, 3 * kMs);
  recorder_.step_end(5 * kMs);  // ends the other
  recorder_.step_end(6 * kMs);  // no step
  EXPECT_EQ(counts_.ignored, 5u);
  EXPECT_EQ(next().doubles, (std::vector<double>{5, 3, 2, 2}));
}

TEST_F(RecorderTest, ALoaderThatHadNothingLeft) {
  const int load = stage("load"), decode = stage("decode");
  recorder_.stage_begin(load, 0);
  recorder_.stage_begin(decode, 1 * kMs);
  recorder_.stage_drop(load, 2 * kMs);
  recorder_.step_begin(-1, 1000 * kMs);
  recorder_.stage_begin(load, 1001 * kMs);
  recorder_.stage_end(load, 1002 * kMs);
  recorder_.stage_begin(load, 1003 * kMs);
  recorder_.stage_drop(load, 1004 * kMs);
  recorder_.step_end(1010 * kMs);
  const ParsedLine& update = next();
  EXPECT_EQ(update.doubles, (std::vector<double>{10, 1, 1})) << "a wall that did not begin before";
  EXPECT_EQ(update.ints, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(counts_.ignored, 1u) << "the end of decode";
  recorder_.stage_drop(load, 0);
  recorder_.stage_drop(-1, 0);
  EXPECT_EQ(counts_.ignored, 3u);
}

TEST_F(RecorderTest, AStageInsideItselfHasTheOutermostTime) {
  const int stage_id = stage("recursive");
  recorder_.step_begin(1, 0);
  recorder_.stage_begin(stage_id, 0);
  recorder_.stage_begin(stage_id, kMs);
  recorder_.stage_end(stage_id, 2 * kMs);
  recorder_.stage_end(stage_id, 4 * kMs);
  recorder_.step_end(4 * kMs);
  const ParsedLine& update = next();
  EXPECT_EQ(update.doubles, (std::vector<double>{4, 4}));
  EXPECT_EQ(update.ints, std::vector<std::int64_t>{2});
  EXPECT_EQ(parent(stage_id), Names::kNoParent);
}

TEST_F(RecorderTest, StagesNestOnlySoDeep) {
  const int stage_id = stage("deep");
  recorder_.step_begin(1, 0);
  for (std::size_t i = 0; i < limits::kMaxStageDepth + 10; ++i) recorder_.stage_begin(stage_id, 0);
  for (std::size_t i = 0; i < limits::kMaxStageDepth + 10; ++i) recorder_.stage_end(stage_id, kMs);
  recorder_.step_end(kMs);
  EXPECT_EQ(counts_.ignored, 10u);
  EXPECT_EQ(next().ints, std::vector<std::int64_t>{static_cast<std::int64_t>(limits::kMaxStageDepth)});
}

TEST_F(RecorderTest, UnknownNumbersAreIgnored) {
  recorder_.step_begin(1, 0);
  for (const int id : {-1, 0, 511, 512, 1 << 30}) {
    recorder_.stage_begin(id, 0);
    recorder_.stage_end(id, 0);
    recorder_.device_ms(id, -1, 1);
    recorder_.count(id, 1);
    recorder_.value(id, 1);
  }
  recorder_.samples(std::vector<std::int64_t>(limits::kMaxSampleIndices + 1));
  for (std::size_t i = 0; i < limits::kMaxApiTags + 1; ++i) recorder_.tag(std::to_string(i));
  EXPECT_EQ(counts_.ignored, 27u);
  recorder_.step_end(kMs);
  EXPECT_EQ(next().rest.tags.size(), limits::kMaxApiTags);
}

TEST_F(RecorderTest, HeldStepsWaitForTheirDeviceTimes) {
  const int forward = stage("forward");
  Recorder recorder(names_, ring_, counts_, 2);
  step(recorder, 1);
  step(recorder, 2);
  EXPECT_TRUE(ring_.empty());
  EXPECT_EQ(counts_.recorded, 2u);
  recorder.device_ms(forward, 1, 10);
  step(recorder, 3);
  EXPECT_EQ(next().doubles, (std::vector<double>{1, 10}));
  recorder.device_ms(forward, 1, 11);  // too late
  EXPECT_EQ(counts_.ignored, 1u);
  recorder.device_ms(forward, 2, 20);
  recorder.release(2);
  EXPECT_EQ(next().doubles, (std::vector<double>{1, 20}));
  EXPECT_TRUE(ring_.empty());
  step(recorder, 4);
  recorder.device_ms(forward, 4, 40);
  recorder.release_all();
  EXPECT_EQ(next().step, 3);
  EXPECT_EQ(next().doubles, (std::vector<double>{1, 40}));
  EXPECT_TRUE(ring_.empty());
}

TEST_F(RecorderTest, NumbersTellOfLostRecords) {
  for (int i = 0; i < 5000; ++i) step(recorder_);
  ASSERT_TRUE(ring_.pop(&words_));
  const RecordHead oldest = head_of(words_);
  EXPECT_GT(oldest.ordinal, 4000u);
  EXPECT_EQ(static_cast<std::int64_t>(oldest.ordinal), oldest.step);
}

TEST_F(RecorderTest, OneThreadMeasuresWhileAnotherDelivers) {
  constexpr std::uint64_t kSteps = 20'000;
  std::thread measuring([&] {
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      const int id = stage(("stage " + std::to_string(i / 100)).c_str());
      recorder_.step_begin(-1, 0);
      recorder_.stage_begin(id, 0);
      recorder_.stage_end(id, kMs);
      recorder_.tag("tag");
      recorder_.step_end(kMs);
    }
  });
  std::uint64_t last = 0;
  while (last < kSteps) {
    if (!ring_.pop(&words_)) continue;
    last = head_of(words_).ordinal;
    const ParsedLine& update = builder_.build(words_);
    ASSERT_EQ(update.layout.host, Names_{"stage " + std::to_string((last - 1) / 100)});
    ASSERT_EQ(update.rest.tags, Names_{"tag"});
  }
  measuring.join();
}

}  // namespace
}  // namespace laggard::agent
