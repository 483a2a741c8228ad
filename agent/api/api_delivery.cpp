#include "agent/api/api_delivery.h"

#include <pthread.h>
#include <spdlog/logger.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/api/log_sink.h"
#include "agent/api/resources.h"
#include "agent/farewell.h"
#include "agent/file_feed.h"
#include "daemon/base/error.h"

namespace laggard::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kGatherRecords = 20ms;  // after a record, to send several at once
constexpr auto kApiTick = 250ms;
constexpr auto kGreetingInterval = 1s;  // to tell of further stages
constexpr int kRecordsPerTurn = 4096;   // so that acks are heard while the ring is emptied
constexpr std::array<const char*, 5> kKinds{"", "work", "input", "sync", "aside"};

int make_wake_fd() {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) throw Shortage("no file descriptor is left");
  return fd;
}

std::vector<StageInfo> stages_of(const Names& names) {
  std::vector<StageInfo> out;
  for (std::size_t id = 0; id < names.stages.size(); ++id) {
    const std::int32_t parent = names.stage_info[id].parent.load(std::memory_order_relaxed);
    const auto kind = static_cast<std::size_t>(names.stage_info[id].kind.load(std::memory_order_relaxed));
    if (parent < 0 && kind == 0) continue;
    out.push_back(
        {names.stages[id], parent < 0 ? "" : names.stages[static_cast<std::size_t>(parent)], kKinds[kind]});
  }
  return out;
}

}  // namespace

ApiDelivery::ApiDelivery(const ApiSettings& settings, ParsedLine config, std::shared_ptr<Handover> handover,
                         const CallCounts& calls, DeliveryCounts& counts)
    : settings_(settings),
      handover_(std::move(handover)),
      calls_(calls),
      counts_(counts),
      log_(make_api_log()),
      wake_fd_(make_wake_fd()),
      link_(std::in_place, settings.collector, settings.keys),
      connection_log_(settings.collector, settings.keys, *log_),
      source_(SourceFactory(settings.run, {}).make("api", settings.rank, {}, false, settings.queue_records)),
      session_(*source_, nullptr),
      builder_(settings.rank, handover_->names),
      hurry_(true),
      config_(std::move(config)) {
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  if (settings.spool.empty()) return;
  try {
    source_->spill_to(std::make_unique<Spool>(settings.spool, settings.spool_mb * kMib));
  } catch (const Error& error) {
    log_->warn("{}: what the queue has no room for is dropped", error.what());
  }
}

ApiDelivery::~ApiDelivery() { ::close(wake_fd_); }

void ApiDelivery::start(const std::shared_ptr<ApiDelivery>& delivery) {
  const SignalsBlocked blocked;
  try {
    std::thread([delivery] {
      pthread_setname_np(pthread_self(), "laggard");
      delivery->run();
    }).detach();
  } catch (const std::system_error& error) {
    throw Shortage(std::string("no thread can be started: ") + error.what());
  }
}

// ---- for other threads ----

void ApiDelivery::wake() const {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the thread is awake.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void ApiDelivery::wake_if_asleep() {
  if (asleep_.exchange(false)) wake();
}

void ApiDelivery::set_config(ParsedLine config) {
  {
    const std::scoped_lock lock(mutex_);
    config_ = std::move(config);
    counts_.settings = 1;
  }
  hurry_ = true;
  wake();
}

bool ApiDelivery::flush(Time limit) {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ++asked_;
  hurry_ = true;
  wake();
  changed_.wait_until(lock, limit, [&] { return settled_ >= mine || gone_; });
  return settled_ >= mine;
}

bool ApiDelivery::stop(Time limit, bool ended) {
  std::unique_lock lock(mutex_);
  ended_ = ended;
  stop_at_ = limit.time_since_epoch().count();
  wake();
  // Its last words may take it a little beyond the limit; a name that does not resolve may take it longer.
  changed_.wait_until(lock, limit + kGatherRecords, [&] { return gone_; });
  return all_delivered_;
}

bool ApiDelivery::is_gone() {
  const std::scoped_lock lock(mutex_);
  return gone_;
}

// ---- the thread ----

void ApiDelivery::run() {
  try {
    deliver();
    say_bye();
  } catch (const std::exception& error) {
    log_->error("stopped by an unexpected failure: {}", error.what());
  }
  publish();
  // Some may be in the ring yet, or held for device times by a thread that did not say that they are
  // complete.
  const std::uint64_t recorded = calls_.recorded, behind = recorded - std::min(taken_, recorded);
  const std::uint64_t lost = source_->held() + behind, dropped = source_->dropped();
  if (lost > 0 || dropped > 0)
    log_->warn("at the end {} items were delivered, {} dropped and {} not delivered",
               counts_.delivered.load(), dropped, lost);
  if (shapeless_ > 0) log_->warn("of the dropped items {} had one record shape too many", shapeless_);
  link_.reset();
  counts_.connected = false;
  const std::scoped_lock lock(mutex_);
  gone_ = true;
  all_delivered_ = is_settled();
  changed_.notify_all();
}

void ApiDelivery::deliver() {
  for (;;) {
    const Time now = Clock::now();
    note_connection(now);
    receive(now);
    const bool more = drain(now);
    send(now);
    note_drops();
    publish();
    note_settled();
    if (is_done(now)) return;
    if (!more) wait(now);
  }
}

void ApiDelivery::note_connection(Time now) {
  while (const auto event = link_->next_event()) {
    connection_log_.note(*event, link_->refusal());
    if (*event != CollectorLink::Event::connected) session_.on_disconnect();
  }
  if (!link_->is_connected()) connection_log_.note_absence(now - started_);
}

void ApiDelivery::receive(Time now) {
  while (const auto message = link_->receive()) {
    const auto incoming = decode(*message);
    if (!incoming.has_value() || incoming->channel != source_->channel()) continue;
    const std::string refusal = session_.refusal();
    session_.on_message(*incoming, now);
    if (session_.refusal() != refusal && !session_.refusal().empty())
      log_->error("the collector refuses rank {}: {}", settings_.rank, session_.refusal());
  }
}

// True when more is in the ring.
bool ApiDelivery::drain(Time now) {
  const bool hurry = hurry_.exchange(false) || stop_at_ != 0;
  if (!hurry && now < next_drain_) return false;
  if (hurry) take_config();
  int taken = 0;
  while (taken < kRecordsPerTurn && handover_->ring.pop(&words_)) {
    take(words_);
    ++taken;
  }
  if (taken > 0) next_drain_ = now + kGatherRecords;
  if (ended_ && handover_->ring.empty() && !std::exchange(end_added_, true)) source_->add_end();
  tell_stages(now);
  // While it waits its turn, a batch may as well grow.
  if (stop_at_ != 0 || (session_.is_open() && source_->all_sent())) source_->flush();
  return taken == kRecordsPerTurn;
}

void ApiDelivery::take_config() {
  std::optional<ParsedLine> config;
  {
    const std::scoped_lock lock(mutex_);
    config.swap(config_);
  }
  if (!config.has_value()) return;
  // Settings that come later are those of the attempt that is under way, and begin no other.
  if (source_->attempts().updates_since_config && !config->attempt.has_value())
    config->attempt = source_->attempts().attempt;
  source_->add_config(*config);
}

void ApiDelivery::tell_stages(Time now) {
  const std::uint32_t version = handover_->names.stage_version.load(std::memory_order_acquire);
  // The first record tells of most stages at once.
  if (version == stage_version_ || taken_ == 0 || now < next_greeting_) return;
  stage_version_ = version;
  next_greeting_ = now + kGreetingInterval;
  source_->set_stages(stages_of(handover_->names));
  session_.greet_again();
}

void ApiDelivery::take(const std::vector<std::uint64_t>& words) {
  const std::uint64_t ordinal = head_of(words).ordinal;
  if (ordinal > taken_ + 1) source_->skip(ordinal - taken_ - 1);
  taken_ = ordinal;
  const auto refusal = source_->add_update(builder_.build(words));
  if (!refusal.has_value()) return;
  source_->skip(1);
  if (++shapeless_ == 1)
    log_->warn(
        "{}: records whose set of stages, counts and values is a further one are dropped; measure the same "
        "in every step",
        *refusal);
}

void ApiDelivery::send(Time now) {
  while (link_->is_ready()) {
    auto message = session_.next_message(now);
    if (!message.has_value()) return;
    link_->send(std::move(*message));
  }
}

void ApiDelivery::note_drops() {
  // A collector that lacks what was committed gets the settings under the number of an item that was dropped.
  const std::uint64_t dropped = std::max(source_->dropped(), shapeless_) - shapeless_;
  if (dropped > dropped_said_ && !std::exchange(dropping_, true))
    log_->warn("records come faster than they are taken: beyond a queue of {} the oldest are dropped",
               settings_.queue_records);
  if (dropping_ && source_->held() == 0) {
    log_->warn("dropped {} records; everything else is delivered again", dropped - dropped_said_);
    dropped_said_ = dropped;
    dropping_ = false;
  }
}

void ApiDelivery::publish() {
  counts_.taken.store(taken_, std::memory_order_relaxed);
  counts_.delivered.store(source_->last_seq() - source_->held() - source_->dropped(),
                          std::memory_order_relaxed);
  counts_.dropped.store(source_->dropped(), std::memory_order_relaxed);
  counts_.held.store(source_->held(), std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    counts_.settings = config_.has_value() ? 1 : 0;
  }
  counts_.connected.store(link_->is_connected(), std::memory_order_relaxed);
}

// Who asks has handed everything over before: what is looked at after the lock is all that he asks for.
void ApiDelivery::note_settled() {
  const std::scoped_lock lock(mutex_);
  if (settled_ == asked_ || !is_settled()) return;
  settled_ = asked_;
  changed_.notify_all();
}

bool ApiDelivery::is_done(Time now) {
  const Clock::rep stop_at = stop_at_;
  if (stop_at == 0) return false;
  const bool end_is_in = !ended_ || end_added_;
  const std::scoped_lock lock(mutex_);
  const bool nothing_to_wait_for = is_settled() || !session_.refusal().empty();
  return now.time_since_epoch().count() >= stop_at || (end_is_in && nothing_to_wait_for);
}

void ApiDelivery::wait(Time now) {
  Time wake_at = now + kApiTick;
  if (now < next_drain_) {
    wake_at = std::min(wake_at, next_drain_);
  } else {
    asleep_ = true;
    if (!handover_->ring.empty()) wake_at = now;
  }
  if (const Clock::rep stop_at = stop_at_; stop_at != 0)
    wake_at = std::min(wake_at, Time(Clock::duration(stop_at)));
  const auto timeout =
      std::chrono::ceil<std::chrono::milliseconds>(std::max(wake_at - now, Clock::duration(0)));
  link_->wait(std::array{wake_fd_}, timeout);
  asleep_ = false;
  std::uint64_t wakings = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &wakings, sizeof wakings);
}

void ApiDelivery::say_bye() {
  if (!session_.is_open()) return;
  const LastWords words{source_->channel(), {encode_bye(source_->channel(), end_added_)}};
  agent::say_bye(*link_, {words}, Time(Clock::duration(stop_at_.load())));
}

}  // namespace laggard::agent
