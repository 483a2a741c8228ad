// The C functions: which thread calls, and where the state is. What they do is done elsewhere.
#include <laggard/laggard.h>
#include <pthread.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "agent/api/api_delivery.h"
#include "agent/api/device_timer.h"
#include "agent/api/log_sink.h"
#include "agent/api/resources.h"
#include "agent/utf8.h"
#include "daemon/base/error.h"

namespace laggard::agent {
namespace {

constexpr std::chrono::milliseconds kExitLimit{2000};  // as laggard.h says
constexpr int kNoId = -1;
constexpr std::size_t kMostSentences = 20;  // about calls, of one process, on stderr

struct Process {
  explicit Process(const ApiSettings& with)
      : settings(with),
        delivery(
            std::make_shared<ApiDelivery>(with, make_config(with, with.config), handover, calls, items)) {
    if (cuda.has_value())
      timer = std::make_unique<DeviceTimer>(*cuda, recorder, device_lost);
    else if (!with.cuda.empty() && with.cuda != "auto")
      make_api_log()->warn("{} is no library of CUDA's runtime: stages have no device times", with.cuda);
  }

  void end_step(std::int64_t now) {
    if (timer != nullptr) timer->make_room();
    recorder.step_end(now);
    if (timer != nullptr) timer->step_ended(recorder.last_step());
  }

  static inline CallCounts calls;
  static inline DeliveryCounts items;
  static inline std::atomic<std::uint64_t> other_thread_calls{0}, device_lost{0};

  static void reset_counts() {
    for (auto* count : {&calls.recorded, &calls.ignored, &items.taken, &items.delivered, &items.dropped,
                        &items.held, &other_thread_calls, &device_lost})
      *count = 0;
    items.settings = 1;
  }

  const ApiSettings settings;
  // Steps wait for device times only where there can be some.
  std::size_t held_steps() const {
    return cuda.has_value() ? std::max(settings.held_steps, limits::kDeviceHeldSteps) : settings.held_steps;
  }

  const std::optional<CudaRuntime> cuda =
      settings.cuda.empty() ? std::nullopt : CudaRuntime::open(settings.cuda);
  const std::shared_ptr<Handover> handover = std::make_shared<Handover>();
  Recorder recorder{handover->names, handover->ring, calls, held_steps()};
  const std::shared_ptr<ApiDelivery> delivery;
  std::unique_ptr<DeviceTimer> timer;  // null: stages are timed on the host alone
};

// The size of a struct says which members it has only while none of them hides in padding at the end.
static_assert(offsetof(laggard_options, otherwise_world_size) +
                  sizeof(laggard_options::otherwise_world_size) ==
              sizeof(laggard_options));
static_assert(offsetof(laggard_stats, device_lost) + sizeof(laggard_stats::device_lost) ==
              sizeof(laggard_stats));

// Never destroyed at exit: a thread may still use it, and in a forked child nothing of it may be touched.
std::atomic<Process*> g_process{nullptr};
std::atomic<bool> g_forked{false}, g_ever_begun{false};
// What is left as it lies, in sight of leak checkers: an exit that leaves memory behind is not the job's
// mistake.
std::atomic<Process*> g_left{nullptr};
// Somebody begins, has begun, or ends: one thread at a time, and nobody else touches what follows.
std::atomic<bool> g_taken{false};
std::weak_ptr<ApiDelivery> g_last_delivery;

// Set on the one thread that measures; in a forked child on none.
thread_local Process* t_process = nullptr;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

ApiDelivery::Time in(std::chrono::milliseconds time) { return ApiDelivery::Clock::now() + time; }

// Without a lock, which the child of a fork might find taken for ever.
bool is_new(std::string_view sentence) {
  static std::array<std::atomic<std::size_t>, kMostSentences> said{};
  const std::size_t hash = std::hash<std::string_view>{}(sentence) | 1;  // 0 is a place that is free
  for (std::atomic<std::size_t>& place : said) {
    std::size_t there = 0;
    if (place.compare_exchange_strong(there, hash)) return true;
    if (there == hash) return false;
  }
  return false;
}

// A call that is wrong is most likely wrong in every step.
void say(const char* what) noexcept {
  if (!is_new(what)) return;
  try {
    make_api_log()->warn("{}", what);
  } catch (...) {  // no memory even for that
  }
}

// Why a call on this thread does nothing.
[[gnu::cold, gnu::noinline]] laggard_status outside() {
  if (g_forked.load(std::memory_order_relaxed)) return LAGGARD_FORKED;
  if (g_process.load(std::memory_order_relaxed) == nullptr) return LAGGARD_OFF;
  Process::other_thread_calls.fetch_add(1, std::memory_order_relaxed);
  return LAGGARD_OTHER_THREAD;
}

void on_fork_in_child() {
  if (Process* const of_parent = g_process.exchange(nullptr); of_parent != nullptr) {
    g_forked = true;
    g_left = of_parent;
  }
  t_process = nullptr;
  // The thread that had taken it is not in the child, and may have been at work on it.
  std::construct_at(&g_last_delivery);
  g_taken = false;
}

void on_exit() {
  Process* const process = g_process.exchange(nullptr);
  if (process == nullptr) return;
  g_left = process;
  if (t_process != nullptr) t_process->recorder.release_all();
  t_process = nullptr;
  process->delivery->stop(in(kExitLimit), false);
}

// No exception leaves the library.
template <typename Call>
laggard_status guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (const Error& error) {
    Process::calls.ignored.fetch_add(1, std::memory_order_relaxed);
    say(error.what());
    return LAGGARD_BAD;
  } catch (const std::bad_alloc&) {
    say("there is no memory left");
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("an unexpected failure");
  }
  return LAGGARD_FAILED;
}

laggard_status begin(const laggard_options* options) {
  if (is_disabled()) return LAGGARD_OFF;
  if (t_process != nullptr) return LAGGARD_OK;
  if (g_forked) return LAGGARD_FORKED;
  if (g_taken.exchange(true)) {
    Process::other_thread_calls.fetch_add(1, std::memory_order_relaxed);
    return LAGGARD_OTHER_THREAD;
  }
  struct GiveBack {
    ~GiveBack() { g_taken = g_process.load() != nullptr; }
  } const give_back;
  if (const auto last = g_last_delivery.lock(); last != nullptr && !last->is_gone())
    throw Shortage("it cannot begin again yet: what was begun before is still ending");
  static const bool hooked =
      std::atexit(on_exit) == 0 && pthread_atfork(nullptr, nullptr, on_fork_in_child) == 0;
  if (!hooked) throw Shortage("no memory is left to be called at the process's exit and fork");
  require_resources();
  const ApiSettings settings = read_settings(options);
  for (const std::string& remark : settings.remarks) say(remark.c_str());
  auto process = std::make_unique<Process>(settings);
  Process::reset_counts();
  ApiDelivery::start(process->delivery);
  g_last_delivery = process->delivery;
  t_process = process.release();
  g_process = t_process;
  g_ever_begun = true;
  return LAGGARD_OK;
}

// What nobody would miss until the report lacks a rank.
const char* why_unmeasured(laggard_status status) {
  switch (status) {
    case LAGGARD_BAD:
    case LAGGARD_FAILED:
      return "so laggard_init() has failed, and this process measures nothing";
    case LAGGARD_OTHER_THREAD:
      return "laggard_init() on another thread: only the thread that called it first is measured";
    default:
      return nullptr;
  }
}

std::string_view name_of(const char* text) {
  const std::string_view name = text == nullptr ? "" : text;
  if (name.empty() || name.size() > limits::kMaxNameBytes || !is_utf8(name))
    throw Error("a name has 1 to " + std::to_string(limits::kMaxNameBytes) + " bytes of UTF-8");
  return name;
}

template <typename Intern>
int id_of(const char* name, Intern&& intern) {
  int id = kNoId;
  guarded([&] {
    if (t_process == nullptr) return outside();
    const std::optional<NameId> found = intern(t_process->handover->names, name_of(name));
    if (!found.has_value())
      throw Error("more than " + std::to_string(limits::kMaxApiNames) + " different names");
    id = static_cast<int>(*found);
    return LAGGARD_OK;
  });
  return id;
}

}  // namespace
}  // namespace laggard::agent

using laggard::agent::Names;
using laggard::agent::now_ns;
using laggard::agent::outside;
using laggard::agent::Process;
using laggard::agent::t_process;

const char* laggard_version(void) { return LAGGARD_VERSION; }

laggard_status laggard_init(const laggard_options* options) {
  const laggard_status status = laggard::agent::guarded([&] { return laggard::agent::begin(options); });
  if (const char* why = laggard::agent::why_unmeasured(status)) laggard::agent::say(why);
  return status;
}

laggard_status laggard_config(const char* json) {
  return laggard::agent::guarded([&] {
    if (t_process == nullptr) return outside();
    t_process->delivery->set_config(
        laggard::agent::make_config(t_process->settings, json == nullptr ? "" : json));
    return LAGGARD_OK;
  });
}

int laggard_stage_id(const char* name, int kind) {
  return laggard::agent::id_of(name, [&](Names& names, std::string_view text) {
    if (kind < LAGGARD_KIND_DEFAULT || kind > LAGGARD_KIND_ASIDE)
      throw laggard::Error("there is no stage kind " + std::to_string(kind));
    const auto id = names.stages.intern(text);
    if (!id.has_value() || kind == LAGGARD_KIND_DEFAULT) return id;
    std::int32_t none = LAGGARD_KIND_DEFAULT;
    if (names.stage_info[*id].kind.compare_exchange_strong(none, kind))
      names.stage_version.fetch_add(1, std::memory_order_release);
    return id;
  });
}

int laggard_count_id(const char* name) {
  return laggard::agent::id_of(name,
                               [](Names& names, std::string_view text) { return names.counts.intern(text); });
}

int laggard_value_id(const char* name) {
  return laggard::agent::id_of(name,
                               [](Names& names, std::string_view text) { return names.values.intern(text); });
}

void laggard_step_begin(int64_t step) {
  if (t_process == nullptr) return (void)outside();
  const std::int64_t now = now_ns();
  if (t_process->recorder.in_step()) t_process->end_step(now);
  t_process->recorder.step_begin(step, now);
  t_process->delivery->wake_if_asleep();
}

void laggard_step_end(void) {
  if (t_process == nullptr) return (void)outside();
  const std::int64_t now = now_ns();
  if (t_process->recorder.in_step())
    t_process->end_step(now);
  else
    t_process->recorder.step_end(now);  // which counts it
  t_process->delivery->wake_if_asleep();
}

void laggard_stage_begin(int stage) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.stage_begin(stage, now_ns());
}

void laggard_stage_end(int stage) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.stage_end(stage, now_ns());
  if (t_process->timer != nullptr) t_process->timer->stage_end(stage);
}

void laggard_stage_begin_on(int stage, void* stream) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.stage_begin(stage, now_ns());
  if (t_process->timer != nullptr) t_process->timer->stage_begin(stage, stream);
}

void laggard_stage_end_on(int stage, void* stream) {
  if (t_process == nullptr) return (void)outside();
  if (t_process->timer != nullptr) t_process->timer->stage_end(stage, stream);
  t_process->recorder.stage_end(stage, now_ns());
}

void laggard_stage_drop(int stage) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.stage_drop(stage, now_ns());
  if (t_process->timer != nullptr) t_process->timer->stage_drop(stage);
}

void laggard_stage_device_ms(int stage, int64_t step, double ms) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.device_ms(stage, step, ms);
}

void laggard_step_release(int64_t step) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.release(step);
  t_process->delivery->wake_if_asleep();
}

void laggard_count(int count, int64_t amount) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.count(count, amount);
}

void laggard_value(int value, double number) {
  if (t_process == nullptr) return (void)outside();
  t_process->recorder.value(value, number);
}

void laggard_tag(const char* tag) {
  laggard::agent::guarded([&] {
    if (t_process == nullptr) return outside();
    t_process->recorder.tag(laggard::agent::name_of(tag));
    return LAGGARD_OK;
  });
}

void laggard_sample_ids(const int64_t* ids, size_t count) {
  laggard::agent::guarded([&] {
    if (t_process == nullptr) return outside();
    if (ids != nullptr) t_process->recorder.samples({ids, count});
    return LAGGARD_OK;
  });
}

laggard_status laggard_flush(uint32_t timeout_ms) {
  return laggard::agent::guarded([&] {
    if (t_process == nullptr) return outside();
    const auto limit = laggard::agent::in(std::chrono::milliseconds(timeout_ms));
    return t_process->delivery->flush(limit) ? LAGGARD_OK : LAGGARD_TIMEOUT;
  });
}

laggard_status laggard_end(uint32_t timeout_ms) {
  return laggard::agent::guarded([&] {
    if (t_process == nullptr) return outside();
    laggard::agent::g_process = nullptr;
    const std::unique_ptr<Process> process(std::exchange(t_process, nullptr));
    if (process->timer != nullptr) process->timer->finish();
    process->recorder.release_all();
    const auto limit = laggard::agent::in(std::chrono::milliseconds(timeout_ms));
    const bool delivered = process->delivery->stop(limit, true);
    laggard::agent::g_taken = false;
    return delivered ? LAGGARD_OK : LAGGARD_TIMEOUT;
  });
}

laggard_status laggard_get_stats(laggard_stats* stats) {
  return laggard::agent::guarded([&] {
    if (stats == nullptr || stats->size < sizeof stats->size) return LAGGARD_BAD;
    if (laggard::agent::g_forked) return LAGGARD_FORKED;
    if (!laggard::agent::g_ever_begun) return LAGGARD_OFF;
    const auto& calls = Process::calls;
    const auto& items = Process::items;
    const std::uint64_t recorded = calls.recorded, taken = std::min<std::uint64_t>(items.taken, recorded);
    const laggard_stats now{.size = stats->size,
                            .recorded = recorded,
                            .delivered = items.delivered,
                            .dropped = items.dropped,
                            .waiting = items.held + items.settings + (recorded - taken),
                            .ignored_calls = calls.ignored,
                            .other_thread_calls = Process::other_thread_calls,
                            .connected = items.connected ? 1U : 0U,
                            .device_lost = Process::device_lost};
    std::memcpy(stats, &now, std::min(stats->size, sizeof now));
    return LAGGARD_OK;
  });
}
