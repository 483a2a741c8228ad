// The C functions of the shared library as a job calls them, without a collector.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <laggard/laggard.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {
thread_local std::uint64_t t_allocations = 0;
}  // namespace

#ifdef LAGGARD_UNSANITIZED
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* __libc_calloc(std::size_t count, std::size_t size);
extern "C" void* __libc_realloc(void* memory, std::size_t size);
// A program's own functions of these names are those of its libraries too.
extern "C" void* malloc(std::size_t size) {
  ++t_allocations;
  return __libc_malloc(size);
}
extern "C" void* calloc(std::size_t count, std::size_t size) {
  ++t_allocations;
  return __libc_calloc(count, size);
}
extern "C" void* realloc(void* memory, std::size_t size) {
  ++t_allocations;
  return __libc_realloc(memory, size);
}

namespace {
std::atomic<int> g_threads_left{INT_MAX};
}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return g_threads_left-- > 0 ? real(thread, attributes, start, argument) : EAGAIN;
}
#endif

namespace {

class CallsTest : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("LAGGARD_DISABLED");
    options_.run = "job";
    options_.collector = "tcp://127.0.0.1:9";  // nobody answers there
  }
  void TearDown() override { laggard_end(100); }
  static laggard_stats stats() {
    laggard_stats out{};
    out.size = sizeof out;
    EXPECT_EQ(laggard_get_stats(&out), LAGGARD_OK);
    return out;
  }
  static void step(int forward, int samples, int loss) {
    laggard_step_begin(LAGGARD_NEXT_STEP);
    laggard_stage_begin(forward);
    laggard_stage_end(forward);
    laggard_stage_device_ms(forward, LAGGARD_CURRENT_STEP, 1);
    laggard_count(samples, 1);
    laggard_value(loss, 1);
    laggard_tag("eval");
    const std::int64_t ids[] = {1, 2, 3};
    laggard_sample_ids(ids, 3);
    laggard_step_end();
  }

  laggard_options options_ = LAGGARD_OPTIONS_INIT;
};

TEST_F(CallsTest, BeforeTheBeginNothingHappens) {
  laggard_step_begin(1);
  laggard_step_end();
  laggard_tag(nullptr);
  EXPECT_EQ(laggard_stage_id("forward", LAGGARD_KIND_DEFAULT), -1);
  EXPECT_EQ(laggard_config("{}"), LAGGARD_OFF);
  laggard_stats stats{};
  stats.size = sizeof stats;
  EXPECT_EQ(laggard_get_stats(&stats), LAGGARD_OFF) << "nothing has begun before this test";
  EXPECT_EQ(laggard_flush(1000), LAGGARD_OFF);
  EXPECT_EQ(laggard_end(1000), LAGGARD_OFF);
}

TEST_F(CallsTest, DisabledIsOff) {
  ::setenv("LAGGARD_DISABLED", "1", 1);
  EXPECT_EQ(laggard_init(&options_), LAGGARD_OFF);
  EXPECT_EQ(laggard_stage_id("forward", LAGGARD_KIND_DEFAULT), -1);
  laggard_step_begin(1);
  laggard_step_end();
  EXPECT_EQ(laggard_end(1000), LAGGARD_OFF);
}

TEST_F(CallsTest, BeginsEndsAndBeginsAgain) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(laggard_init(&options_), LAGGARD_OK);
    EXPECT_EQ(laggard_init(&options_), LAGGARD_OK);
    const int forward = laggard_stage_id("forward", LAGGARD_KIND_DEFAULT);
    EXPECT_EQ(forward, 0);
    EXPECT_EQ(laggard_stage_id("forward", LAGGARD_KIND_WORK), forward);
    step(forward, laggard_count_id("samples"), laggard_value_id("loss"));
    EXPECT_EQ(stats().recorded, 1u);
    EXPECT_EQ(stats().ignored_calls, 0u);
    EXPECT_EQ(laggard_flush(10), LAGGARD_TIMEOUT);
    EXPECT_EQ(stats().waiting, 2u);  // the settings too
    EXPECT_EQ(laggard_end(100), LAGGARD_TIMEOUT);
    EXPECT_EQ(laggard_end(100), LAGGARD_OFF);
  }
}

TEST_F(CallsTest, WhatCannotBeIsRefused) {
  options_.collector = "nowhere";
  EXPECT_EQ(laggard_init(&options_), LAGGARD_BAD);
  options_.collector = "tcp://127.0.0.1:9";
  options_.config = "no JSON";  // which is said, and no reason to measure nothing
  ASSERT_EQ(laggard_init(&options_), LAGGARD_OK);
  EXPECT_EQ(laggard_config("[1]"), LAGGARD_BAD);
  EXPECT_EQ(laggard_config("{\"global_batch\": 8}"), LAGGARD_OK);
  EXPECT_EQ(laggard_stage_id("", LAGGARD_KIND_DEFAULT), -1);
  EXPECT_EQ(laggard_stage_id(nullptr, LAGGARD_KIND_DEFAULT), -1);
  EXPECT_EQ(laggard_stage_id("\xff", LAGGARD_KIND_DEFAULT), -1);
  EXPECT_EQ(laggard_stage_id(std::string(513, 'x').c_str(), LAGGARD_KIND_DEFAULT), -1);
  EXPECT_EQ(laggard_stage_id("forward", 5), -1);
  EXPECT_EQ(laggard_get_stats(nullptr), LAGGARD_BAD);
}

TEST_F(CallsTest, OtherThreadsChangeNothing) {
  ASSERT_EQ(laggard_init(&options_), LAGGARD_OK);
  std::thread([&] {
    laggard_step_begin(1);
    laggard_step_end();
    EXPECT_EQ(laggard_init(&options_), LAGGARD_OTHER_THREAD);
    EXPECT_EQ(laggard_flush(1000), LAGGARD_OTHER_THREAD);
    EXPECT_EQ(laggard_end(1000), LAGGARD_OTHER_THREAD);
    EXPECT_EQ(stats().other_thread_calls, 5u);
  }).join();
  EXPECT_EQ(stats().recorded, 0u);
}

TEST_F(CallsTest, OfManyThreadsThatBeginOneDoes) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 2; ++round) {
    std::atomic<int> began{0}, others{0}, ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (++ready; ready < kThreads;) std::this_thread::yield();
        const laggard_status status = laggard_init(&options_);
        if (status == LAGGARD_OK) ++began;
        if (status == LAGGARD_OTHER_THREAD) ++others;
        for (++ready; ready < 2 * kThreads;) std::this_thread::yield();
        if (status == LAGGARD_OK) laggard_end(500);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(began, 1);
    EXPECT_EQ(others, kThreads - 1);
  }
}

TEST_F(CallsTest, AForkedChildIsNobody) {
  ASSERT_EQ(laggard_init(&options_), LAGGARD_OK);
  const pid_t child = ::fork();
  if (child == 0) {
    laggard_step_begin(1);
    laggard_step_end();
    laggard_stats stats{};
    stats.size = sizeof stats;
    const bool right = laggard_init(&options_) == LAGGARD_FORKED && laggard_end(1000) == LAGGARD_FORKED &&
                       laggard_get_stats(&stats) == LAGGARD_FORKED;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(stats().recorded, 0u);
}

TEST_F(CallsTest, AStderrWhoseReaderIsGoneKillsNobody) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  std::array<int, 2> peers{};  // of which poll() says nothing
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, peers.data()), 0);
  ::shutdown(peers[1], SHUT_WR);
  options_.collector = "a broken pipe";
  for (const int broken : {ends[1], peers[1]}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGPIPE, SIG_DFL);
      ::dup2(broken, STDERR_FILENO);
      const bool right = laggard_init(&options_) == LAGGARD_BAD;
      sigset_t pending;
      sigpending(&pending);
      ::_exit(right && sigismember(&pending, SIGPIPE) == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const int fd : {ends[1], peers[0], peers[1]}) ::close(fd);
}

#ifdef LAGGARD_UNSANITIZED
// UndefinedBehaviorSanitizer looks through a pipe for the type of an object.
TEST_F(CallsTest, WithoutDescriptorsItSaysSo) {
  for (const rlim_t most : {3, 5, 6, 7, 8, 10, 12, 14})
    EXPECT_EXIT(
        {
          rlimit limit{};
          limit.rlim_cur = limit.rlim_max = most;
          ::setrlimit(RLIMIT_NOFILE, &limit);
          ::_exit(laggard_init(&options_) == LAGGARD_FAILED ? 0 : 1);
        },
        testing::ExitedWithCode(0), "lacks file descriptors");
}

TEST_F(CallsTest, WithoutThreadsItSaysSo) {
  for (const int left : {0, 1, 2})
    EXPECT_EXIT(
        {
          g_threads_left = left;
          ::_exit(laggard_init(&options_) == LAGGARD_FAILED ? 0 : 1);
        },
        testing::ExitedWithCode(0), "lacks threads");
}
#endif

TEST_F(CallsTest, HeldStepsCountWhenTheirThreadIsGone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // what threads of earlier tests hold would look leaked
  options_.held_steps = 4;
  EXPECT_EXIT(
      {
        std::thread([&] {
          laggard_init(&options_);
          for (int i = 0; i < 10; ++i) step(0, 0, 0);
        }).join();
        std::exit(stats().recorded == 10 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "0 items were delivered, 0 dropped and 11 not delivered");
}

TEST_F(CallsTest, EachSentenceIsSaidOnce) {
  ASSERT_EQ(laggard_init(&options_), LAGGARD_OK);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) {
    laggard_stage_id("forward", 77);
    laggard_stage_id("forward", 78);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* sentence : {"stage kind 77", "stage kind 78"}) {
    const std::size_t first = said.find(sentence);
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(said.find(sentence, first + 1), std::string::npos);
  }
  EXPECT_EQ(stats().ignored_calls, 10u);
}

TEST_F(CallsTest, StatsAreWrittenToTheirLastByteAndNoFurther) {
  ASSERT_EQ(laggard_init(&options_), LAGGARD_OK);
  struct {
    laggard_stats stats;
    unsigned char behind[8];
  } given;
  for (const std::size_t size :
       {sizeof given.stats, sizeof given.stats - 4, offsetof(laggard_stats, dropped)}) {
    std::memset(static_cast<void*>(&given), 0xff, sizeof given);
    given.stats.size = size;
    EXPECT_EQ(laggard_get_stats(&given.stats), LAGGARD_OK);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
    EXPECT_EQ(bytes[size - 1], 0u);
    EXPECT_EQ(bytes[size], 0xffu);
  }
}

TEST_F(CallsTest, TheSteadyStateAllocatesNothing) {
  ASSERT_EQ(laggard_init(&options_), LAGGARD_OK);
  const int forward = laggard_stage_id("forward", LAGGARD_KIND_DEFAULT);
  const int samples = laggard_count_id("samples"), loss = laggard_value_id("loss");
  for (int i = 0; i < 10; ++i) step(forward, samples, loss);
  const std::uint64_t before = t_allocations;
  for (int i = 0; i < 100'000; ++i) step(forward, samples, loss);
  EXPECT_EQ(t_allocations, before);
#ifdef LAGGARD_UNSANITIZED
  std::free(std::malloc(1));
  EXPECT_EQ(t_allocations, before + 1) << "the counting itself";
#endif
  EXPECT_EQ(stats().recorded, 100'010u);
}

}  // namespace
