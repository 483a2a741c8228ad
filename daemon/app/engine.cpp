#include "daemon/app/engine.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "daemon/base/error.h"

namespace laggard::app {
namespace {

using std::chrono::milliseconds;

// Group commit: an fsync, and the rows of every rank and source, cost the same whatever a commit covers. Only
// acks wait for it; views do not.
constexpr std::int64_t kCommitEveryMs = 50;
// A step that still waits for ranks is stored after this long all the same, so that acks do not wait.
constexpr std::int64_t kOpenStepWaitMs = 1000;
constexpr std::int64_t kPublishEveryMs = 50;
constexpr std::int64_t kTickEveryMs = 100;
constexpr std::int64_t kRetryCommitMs = 1000;
// Without anything to store, so often is looked for what is kept too long.
constexpr std::int64_t kUpkeepEveryMs = 10'000;
// Messages handled before time, requests and the bound below are looked at again.
constexpr std::size_t kTurnMessages = 64;
// While nothing can be written, so many items are taken for the live view; then agents have to wait.
constexpr std::uint64_t kMaxItemsHeld = 200'000;

}  // namespace

struct Engine::Request {
  enum class What { close, remove };
  Request(What asked, std::string name) : what(asked), run(std::move(name)) {}
  const What what;
  const std::string run;
  std::promise<void> done;
  void refuse(const std::string& why) { done.set_exception(std::make_exception_ptr(Error(why))); }
};

Engine::Engine(const core::Options& options, core::Restored restored, store::Store& store,
               core::StepArchive& archive, ingest::Server::Queue& queue, std::function<core::UnixMs()> now)
    : queue_(queue),
      now_(std::move(now)),
      collector_(options, std::move(restored), archive, now_()),
      storing_(store, [&queue] { queue.wake(); }) {
  stored_until_ = now_();
  snapshot_ = collector_.snapshot(now_(), {});
}

Engine::~Engine() { stop(); }

void Engine::start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  thread_ = std::thread([this] { run(); });
}

void Engine::stop() {
  stopping_ = true;
  queue_.wake();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const core::Snapshot> Engine::snapshot() const {
  const std::scoped_lock lock(mutex_);
  return snapshot_;
}

void Engine::close_run(const std::string& name) {
  ask(std::make_shared<Request>(Request::What::close, name));
}

void Engine::delete_run(const std::string& name) {
  ask(std::make_shared<Request>(Request::What::remove, name));
}

void Engine::ask(const std::shared_ptr<Request>& request) {
  if (stopping_) throw Error("nothing is done with run " + request->run + ": the collector is stopping");
  std::future<void> done = request->done.get_future();
  {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(request);
  }
  queue_.wake();
  if (done.wait_for(std::chrono::seconds(5)) != std::future_status::ready)
    throw Error("run " + request->run + " is not yet " +
                (request->what == Request::What::close ? "closed" : "deleted") +
                ": the database cannot be written now, and it will be as soon as that works");
  done.get();
}

void Engine::run() {
  pthread_setname_np(pthread_self(), "engine");
  try {
    loop();
  } catch (const Error& error) {
    // What is stored cannot be read. Going on would answer from half of it.
    spdlog::critical("{}; stopping", error.what());
    callbacks_.failed();
  }
}

bool Engine::may_take() const { return items_held_ < kMaxItemsHeld; }

void Engine::loop() {
  for (;;) {
    callbacks_.turned();
    const bool stopping = stopping_;
    std::vector<ingest::Message> messages = next_messages(stopping);
    if (!messages.empty()) callbacks_.drained();
    for (ingest::Message& message : messages) {
      handle(message);
      commit_and_publish(now_());
    }
    take_requests();
    tick(now_(), stopping);
    if (stopping && messages.empty()) break;
    commit_and_publish(now_());
  }
  commit_all(now_());
  publish(now_());
  refuse_requests();
}

std::vector<ingest::Message> Engine::next_messages(bool stopping) {
  const milliseconds wait{kPublishEveryMs};
  if (may_take()) return queue_.pop(kTurnMessages, stopping ? milliseconds(0) : wait);
  // Nothing is taken: the queue fills, and the agents' windows behind it.
  if (storing_.is_busy())
    storing_.wait(wait);
  else
    std::this_thread::sleep_for(wait);
  return {};
}

void Engine::tick(core::UnixMs now, bool stopping) {
  // While nothing is taken nobody can be heard, and silence proves nothing.
  if (!may_take()) listening_since_ = now;
  if (!may_take() || (now - last_tick_ < kTickEveryMs && !stopping)) return;
  collector_.tick(now, listening_since_);
  last_tick_ = now;
  uncommitted_ = true;  // time alone settles steps; only collect() knows whether it did
  changed_ = true;
}

void Engine::commit_and_publish(core::UnixMs now) {
  finish_commit(now);
  // With no room for the records that they wait for, open steps need not wait.
  if (commit_is_due(now)) begin_commit(now, may_take() ? kOpenStepWaitMs : 0);
  if (changed_ && now - last_publish_ >= kPublishEveryMs) publish(now);
}

void Engine::handle(ingest::Message& message) {
  changed_ = uncommitted_ = true;
  // Its run was deleted after the message had come.
  if (const auto source = ingest::source_of(message); source.has_value() && !collector_.knows(*source))
    return callbacks_.reply({ingest::ForgottenReply{*source}});
  if (const auto* hello = std::get_if<ingest::HelloMessage>(&message)) {
    handle(*hello);
  } else if (const auto* items = std::get_if<ingest::ItemsMessage>(&message)) {
    handle(*items);
  } else if (const auto* heartbeat = std::get_if<ingest::HeartbeatMessage>(&message)) {
    collector_.heartbeat(heartbeat->source, heartbeat->lines, now_());
  } else {
    const auto& bye = std::get<ingest::ByeMessage>(message);
    collector_.bye(bye.source, bye.finished, now_());
  }
}

// Replies go out at once: a commit that ends later says more, and must not be said before.
void Engine::handle(const ingest::HelloMessage& message) {
  auto answer = collector_.hello(message.hello, message.layouts, now_());
  if (const auto* welcomed = std::get_if<core::Welcomed>(&answer))
    callbacks_.reply({ingest::WelcomeReply{message.session, *welcomed}});
  else
    callbacks_.reply({ingest::RefusedReply{message.session, std::get<core::Refused>(answer).reason}});
}

void Engine::handle(const ingest::ItemsMessage& message) {
  if (collector_.apply(message.source, message.items, now_()) == core::Collector::Taken::taken)
    items_held_ += message.items.count();
  else
    callbacks_.reply({collector_.ack_of(message.source)});
}

void Engine::take_requests() {
  std::vector<std::shared_ptr<Request>> requests;
  {
    const std::scoped_lock lock(mutex_);
    requests.swap(requests_);
  }
  for (const auto& request : requests) take(request);
}

void Engine::take(const std::shared_ptr<Request>& request) {
  using core::Collector;
  const std::string none = "there is no run " + request->run;
  if (request->what == Request::What::close) {
    if (!collector_.close_run(request->run)) return request->refuse(none);
  } else {
    const Collector::Deleted deleted = collector_.delete_run(request->run);
    if (deleted == Collector::Deleted::no_such_run) return request->refuse(none);
    if (deleted == Collector::Deleted::still_fed)
      return request->refuse("agents still deliver run " + request->run + ": stop them first");
    spdlog::info("run {} is deleted", request->run);
  }
  changed_ = uncommitted_ = true;
  to_store_.push_back(request);
}

// Those that the last commit did not make durable, and those that came too late for it.
void Engine::refuse_requests() {
  std::vector<std::shared_ptr<Request>> late = std::exchange(to_store_, {});
  {
    const std::scoped_lock lock(mutex_);
    late.insert(late.end(), requests_.begin(), requests_.end());
    requests_.clear();
  }
  for (const auto& request : late)
    request->refuse("nothing is done with run " + request->run + ": the collector is stopping");
}

bool Engine::commit_is_due(core::UnixMs now) const {
  return uncommitted_ && !storing_.is_busy() &&
         now - last_commit_ >= (commit_error_.empty() ? kCommitEveryMs : kRetryCommitMs);
}

void Engine::begin_commit(core::UnixMs now, std::int64_t max_wait_ms) {
  last_commit_ = now;
  uncommitted_ = false;
  items_storing_ = items_held_;
  storing_requests_ = std::exchange(to_store_, {});
  core::Writes writes = collector_.collect(now, max_wait_ms);
  if (writes.empty() && now < next_upkeep_)
    committed(now);
  else
    storing_.begin(std::move(writes), now);
}

void Engine::finish_commit(core::UnixMs now) {
  const std::optional<StoreThread::Result> result = storing_.take_result();
  if (!result.has_value()) return;
  if (!result->why.empty()) return not_committed(result->why);
  committed(now);
  keep_up(result->upkeep, now);
}

void Engine::committed(core::UnixMs now) {
  if (!commit_error_.empty()) spdlog::info("the database can be written again");
  commit_error_.clear();
  stored_until_ = last_commit_;
  items_held_ -= std::exchange(items_storing_, 0);
  std::vector<core::AckInfo> acks = collector_.committed();
  // Who has an ack, or is told that a run is closed, can also see what it stands for.
  if (!acks.empty() || !storing_requests_.empty()) publish(now);
  if (!acks.empty()) callbacks_.reply({acks.begin(), acks.end()});
  for (const auto& request : std::exchange(storing_requests_, {})) request->done.set_value();
}

// What is kept too long goes a slice with each commit, for as long as there is some.
void Engine::keep_up(const store::Upkeep& upkeep, core::UnixMs now) {
  bool more = upkeep.more;
  if (upkeep.expiry.has_value()) more |= collector_.expire(*upkeep.expiry);
  // One at a time: the next look at the size counts what it gave back.
  for (const core::RunId run : upkeep.runs) {
    const std::optional<std::string> name = collector_.delete_run_unless_fed(run, upkeep.runs_before);
    if (!name.has_value()) continue;
    spdlog::info("run {} is kept no longer and was deleted", *name);
    more = true;
    break;
  }
  if (upkeep.stuck && !stuck_)
    spdlog::warn(
        "the database is larger than max_database_mb, and everything that may go has gone: the newest "
        "steps of each attempt keep their records");
  stuck_ = upkeep.stuck;
  next_upkeep_ = more ? now : now + kUpkeepEveryMs;
  changed_ = changed_ || more;
  uncommitted_ = uncommitted_ || more;
}

void Engine::not_committed(const std::string& why) {
  ++commits_failed_;
  changed_ = uncommitted_ = true;
  if (commit_error_ != why)
    spdlog::error("{}; nothing is acknowledged until it can be written, agents keep their records", why);
  commit_error_ = why;
  collector_.not_committed();
  to_store_.insert(to_store_.begin(), storing_requests_.begin(), storing_requests_.end());
  storing_requests_.clear();
}

// The end: what is under way, then all the rest, open steps too.
void Engine::commit_all(core::UnixMs now) {
  const auto finish = [&] {
    while (storing_.is_busy()) {
      storing_.wait(milliseconds(kRetryCommitMs));
      finish_commit(now);
    }
  };
  finish();
  begin_commit(now, 0);
  finish();
}

void Engine::publish(core::UnixMs now) {
  last_publish_ = now;
  changed_ = false;
  const ingest::Counts counts = callbacks_.ingest_counts();
  const ingest::ConnectionCounts connections = callbacks_.connection_counts();
  core::IngestCounters counters{{"connections", connections.connections},
                                {"connections_refused", connections.connections_refused},
                                {"connections_unaccepted", connections.connections_unaccepted},
                                {"handshakes_refused", connections.handshakes_refused},
                                {"messages", counts.messages},
                                {"messages_malformed", counts.messages_malformed},
                                {"messages_too_large", counts.messages_too_large},
                                {"hellos", counts.hellos},
                                {"hellos_refused", counts.hellos_refused},
                                {"unknown_sessions", counts.unknown_sessions},
                                {"batches_over_credit", counts.batches_over_credit},
                                {"items", counts.items},
                                {"replies_unsent", counts.replies_unsent},
                                {"sessions", counts.sessions},
                                {"sessions_refused", counts.sessions_refused},
                                {"hellos_not_allowed", counts.hellos_not_allowed},
                                {"messages_not_allowed", counts.messages_not_allowed},
                                {"commits_failed", commits_failed_}};
  const core::StorageState storage{.problem = commit_error_,
                                   .unstored = items_held_,
                                   .waiting_ms = items_held_ > 0 ? now - stored_until_ : 0};
  std::shared_ptr<const core::Snapshot> fresh = collector_.snapshot(now, counters, storage);
  {
    const std::scoped_lock lock(mutex_);
    snapshot_.swap(fresh);
  }
  callbacks_.published();
}

}  // namespace laggard::app
