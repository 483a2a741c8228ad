#include "agent/agent.h"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "agent/asked_files.h"
#include "agent/collector_link.h"
#include "agent/connection_log.h"
#include "agent/farewell.h"
#include "agent/file_feed.h"
#include "agent/file_watch.h"
#include "agent/session.h"
#include "agent/utf8.h"
#include "daemon/base/error.h"

namespace laggard::agent {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using namespace std::chrono_literals;

constexpr auto kGather = 20ms;         // after a change, to read several lines with one waking
constexpr auto kPollInterval = 250ms;  // of files without inotify
constexpr auto kLookInterval = 1s;     // of files with it, and of patterns
constexpr auto kCheckpointInterval = 1s;
constexpr auto kTick = 250ms;
constexpr auto kByeLinger = 2s;  // to be said and answered; a collector that hangs costs no more

class Delivery {
 public:
  explicit Delivery(const DeliveryOptions& options);
  DeliveryReport run();

 private:
  struct Followed {
    std::unique_ptr<FileFeed> feed;
    std::string collector_id;  // of the collector that its items went to; "" before the first Welcome
    std::uint64_t resumed_behind_line = 0;
    std::string problem;            // why it cannot be opened, as last logged
    std::uint64_t truncations = 0;  // as last logged
    bool watched = false;
    bool unread = true;  // lines may be there
    bool finished = false;
    Time look_at{};
  };

  void add_files();
  void add_file(const std::string& path);
  bool is_read_through_base(const std::string& path) const;
  void start_feed(Followed& followed, bool from_progress);
  void start_again(Followed& followed);
  void register_sources(Followed& followed);

  void receive(Time now);
  void check_collector(std::uint32_t channel);
  void note_changes(Time now);
  bool read_files(Time now);
  std::size_t room_of(const Followed& followed) const;
  void note_problem(Followed& followed);
  void send(Time now);
  void keep_progress(Time now);
  void wait(Time now);
  void note_connection(Time now);
  void note_stop(Time now);
  bool is_done(Time now) const;
  void say_bye();
  void tell_progress(Time now);
  DeliveryReport report() const;

  const DeliveryOptions& options_;
  CollectorLink link_;
  ConnectionLog log_;
  FileWatch watch_;
  SourceFactory sources_;
  std::optional<ProgressStore> progress_;
  std::map<std::string, Followed> files_;                            // by absolute path
  std::map<std::uint32_t, std::pair<Session, Followed*>> sessions_;  // by channel
  const Time started_ = Clock::now();
  Time last_heard_ = started_;
  Time next_expansion_{}, next_checkpoint_{}, next_progress_{};
  std::optional<Time> stopping_since_;
  bool reached_ = false, looked_for_files_ = false;
};

Delivery::Delivery(const DeliveryOptions& options)
    : options_(options),
      link_(options.collector, options.keys),
      log_(options.collector, options.keys, *spdlog::default_logger_raw()),
      watch_(options.poll || options.once),
      sources_(options.run, options.stages) {
  if (!options.once && !options.state_directory.empty())
    progress_.emplace(options.state_directory, options.collector, options.run);
}

void Delivery::add_files() {
  FoundFiles found = find_files(options_.files);
  // What appears beside a file that is followed already is what rotation made of that one. It is not when
  // both appear at once, as at the start.
  std::erase_if(found.matched, [&](const std::string& path) { return files_.contains(base_of(path)); });
  if (!std::exchange(looked_for_files_, true))
    for (const std::string& sentence : missing_files(options_.files))
      spdlog::info("{} yet; waiting", sentence);  // a name with a mistake looks like a job that has not begun
  for (const std::string& path : found.named) add_file(path);
  for (const std::string& path : found.matched)
    if (!is_read_through_base(path)) add_file(path);
}

// True of what was rotated while no agent ran: its base file goes on in it where an earlier agent stopped.
bool Delivery::is_read_through_base(const std::string& path) const {
  const auto base = files_.find(base_of(path));
  return base != files_.end() && base->second.resumed_behind_line > 0 && !progress_->load(path);
}

void Delivery::add_file(const std::string& path) {
  if (files_.contains(path)) return;
  Followed& followed = files_[path];
  followed.feed = std::make_unique<FileFeed>(path, sources_);
  start_feed(followed, progress_.has_value());
}

void Delivery::start_feed(Followed& followed, bool from_progress) {
  const std::string path = followed.feed->path();
  const auto progress = from_progress ? progress_->load(path) : std::nullopt;
  if (progress.has_value() && followed.feed->resume(*progress)) {
    followed.collector_id = progress->collector_id;
    followed.resumed_behind_line = progress->place.line_number;
  }
  followed.watched = watch_.fd() >= 0 && watch_.add(path);
  register_sources(followed);
}

// What was read is worth nothing to another collector, or to one that lost it.
void Delivery::start_again(Followed& followed) {
  spdlog::info("{} is read again from its start: the collector lacks lines that were read before",
               followed.feed->path());
  for (auto& [channel, entry] : sessions_)
    if (entry.second == &followed && link_.is_ready()) link_.send(encode_bye(channel, false));
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.second == &followed; });
  followed.feed = std::make_unique<FileFeed>(followed.feed->path(), sources_);
  followed.collector_id.clear();
  followed.resumed_behind_line = 0;
  followed.finished = false;
  followed.unread = true;
}

void Delivery::register_sources(Followed& followed) {
  for (RankSource* source : followed.feed->take_new_sources()) {
    const bool first =
        std::ranges::none_of(sessions_, [&](const auto& entry) { return entry.second.second == &followed; });
    sessions_.try_emplace(source->channel(), Session(*source, first ? &followed.feed->counts() : nullptr),
                          &followed);
  }
}

void Delivery::receive(Time now) {
  while (const auto message = link_.receive()) {
    const auto incoming = decode(*message);
    const auto it = incoming ? sessions_.find(incoming->channel) : sessions_.end();
    if (it == sessions_.end()) continue;
    last_heard_ = now;
    reached_ = true;
    Session& session = it->second.first;
    const bool refused = !session.refusal().empty();
    session.on_message(*incoming, now);
    if (!refused && !session.refusal().empty())
      spdlog::error("the collector refuses rank {} of {}: {}", session.source().rank(),
                    it->second.second->feed->path(), session.refusal());
    check_collector(incoming->channel);
  }
}

void Delivery::check_collector(std::uint32_t channel) {
  auto& [session, followed] = sessions_.at(channel);
  if (session.collector_id().empty()) return;
  const bool other = !followed->collector_id.empty() && followed->collector_id != session.collector_id();
  if (other || session.collector_forgot()) return start_again(*followed);
  followed->collector_id = session.collector_id();
}

void Delivery::note_changes(Time now) {
  if (watch_.fd() >= 0) {
    for (const std::string& path : watch_.changed()) {
      Followed& followed = files_.at(path);
      followed.look_at = std::min(followed.look_at, now + kGather);
    }
  }
  if (now < next_expansion_) return;
  next_expansion_ = now + kLookInterval;
  if (!options_.once) add_files();
}

// A record takes less room in the window than its line does in the file.
std::size_t Delivery::room_of(const Followed& followed) const {
  const std::size_t share = limits::kWindowBytes / files_.size(), held = followed.feed->window_bytes();
  return share - std::min(share, held);
}

// True when more can be read at once.
bool Delivery::read_files(Time now) {
  bool more = false;
  for (auto& [path, followed] : files_) {
    if (followed.finished || (!followed.unread && now < followed.look_at)) continue;
    const std::size_t room = room_of(followed);
    if (room == 0) continue;
    if (files_.contains(base_of(path))) followed.feed->keep_to_file();
    followed.unread = followed.feed->pump(std::min(room, FileFeed::kBytesPerPump));
    note_problem(followed);
    if (!followed.unread && options_.once) {
      followed.feed->finish();
      followed.finished = true;
    }
    if (!followed.unread) followed.look_at = now + (followed.watched ? kLookInterval : kPollInterval);
    register_sources(followed);
    more |= followed.unread && !followed.feed->full();
  }
  return more;
}

// With `once` nothing was sent by then: every file is opened before the first message goes out.
void Delivery::note_problem(Followed& followed) {
  const std::string& path = followed.feed->path();
  const FileFollower& follower = followed.feed->follower();
  if (std::exchange(followed.truncations, follower.truncations()) < follower.truncations())
    spdlog::warn("{} was truncated: lines written just before may be missing", path);
  const std::string& problem = follower.problem();
  if (problem == followed.problem) return;
  followed.problem = problem;
  if (problem.empty()) return;
  if (options_.once) throw Error("cannot read " + path + ": " + problem);
  spdlog::warn("cannot read {}, trying on: {}", path, problem);
}

void Delivery::send(Time now) {
  for (auto& [channel, entry] : sessions_) {
    while (link_.is_ready()) {
      auto message = entry.first.next_message(now);
      if (!message.has_value()) break;
      link_.send(std::move(*message));
    }
  }
}

void Delivery::keep_progress(Time now) {
  if (!progress_.has_value()) return;
  const bool due = now >= next_checkpoint_;
  if (due) next_checkpoint_ = now + kCheckpointInterval;
  for (auto& [path, followed] : files_) {
    if (due) followed.feed->begin_checkpoint();
    if (followed.collector_id.empty()) continue;
    if (auto progress = followed.feed->take_checkpoint()) {
      progress->collector_id = followed.collector_id;
      progress_->save(path, *progress);
    }
  }
}

void Delivery::note_connection(Time now) {
  while (const auto event = link_.next_event()) {
    log_.note(*event, link_.refusal());
    if (*event == CollectorLink::Event::connected) continue;
    for (auto& [channel, entry] : sessions_) entry.first.on_disconnect();
  }
  if (!link_.is_connected()) log_.note_absence(now - started_);
}

void Delivery::note_stop(Time now) {
  pollfd item{options_.stop_fd, POLLIN, 0};
  if (stopping_since_ || options_.stop_fd < 0 || ::poll(&item, 1, 0) <= 0) return;
  stopping_since_ = now;
  for (auto& [path, followed] : files_) followed.unread = true;
}

bool Delivery::is_done(Time now) const {
  const bool all_read = std::ranges::all_of(files_, [&](const auto& entry) {
    return options_.once ? entry.second.finished : !entry.second.unread;
  });
  const bool all_committed = std::ranges::all_of(sessions_, [](const auto& entry) {
    const Session& session = entry.second.first;
    return !session.refusal().empty() || session.source().uncommitted() == 0;
  });
  if (stopping_since_ && now - *stopping_since_ >= kStopLimit) return true;
  if (options_.once && now - last_heard_ >= kGiveUp) return true;
  return all_read && all_committed && (options_.once || stopping_since_);
}

void Delivery::say_bye() {
  std::vector<LastWords> sources;
  for (const auto& [channel, entry] : sessions_) {
    const auto& [session, followed] = entry;
    if (!session.is_open()) continue;
    LastWords& words = sources.emplace_back();
    words.channel = channel;
    if (session.lines().has_value()) words.messages.push_back(encode_heartbeat(channel, session.lines()));
    const bool ended = followed->feed->ranks().at(session.source().rank()).ended;
    words.messages.push_back(encode_bye(channel, ended || followed->finished));
  }
  agent::say_bye(link_, sources, Clock::now() + kByeLinger);
}

DeliveryReport Delivery::run() {
  add_files();
  next_expansion_ = started_ + kLookInterval;
  for (;;) {
    const Time now = Clock::now();
    note_connection(now);
    receive(now);
    note_stop(now);
    note_changes(now);
    const bool more = read_files(now);
    send(now);
    keep_progress(now);
    tell_progress(now);
    if (is_done(now)) break;
    if (!more) wait(now);
  }
  // The first time for a place noted earlier, the second for the last one.
  for (int i = 0; i < 2; ++i) {
    next_checkpoint_ = {};
    keep_progress(Clock::now());
  }
  next_progress_ = {};
  tell_progress(Clock::now());
  say_bye();
  return report();
}

void Delivery::wait(Time now) {
  Time wake = now + kTick;
  for (const auto& [path, followed] : files_)
    if (!followed.finished && !followed.unread && room_of(followed) > 0)
      wake = std::min(wake, followed.look_at);
  const bool gathering = wake - now <= kGather;
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(std::max(wake - now, Clock::duration(0)));
  link_.wait(std::array{gathering ? -1 : watch_.fd(), stopping_since_ ? -1 : options_.stop_fd}, timeout);
}

void Delivery::tell_progress(Time now) {
  if (!options_.on_progress || now < next_progress_) return;
  next_progress_ = now + kTick;
  DeliveryProgress progress;
  for (const auto& [path, followed] : files_) progress.bytes_read += followed.feed->follower().bytes_read();
  for (const auto& [channel, entry] : sessions_) {
    progress.items_committed += entry.first.source().committed_seq();
    progress.items_waiting += entry.first.source().uncommitted();
  }
  options_.on_progress(progress);
}

DeliveryReport Delivery::report() const {
  DeliveryReport out{.files = {},
                     .collector_reached = reached_ || sessions_.empty(),
                     .no_connection = link_.is_connected() ? "" : log_.sentence(link_.refusal())};
  for (const auto& [path, followed] : files_) {
    FileReport& file = out.files.emplace_back();
    file = {.path = path,
            .lines = followed.feed->counts(),
            .truncations = followed.feed->follower().truncations(),
            .resumed_behind_line = followed.resumed_behind_line,
            .unread_bytes = followed.unread ? followed.feed->follower().bytes_ahead() : 0,
            .ranks = {}};
    for (const auto& [rank, feed] : followed.feed->ranks())
      file.ranks.push_back({.rank = rank,
                            .updates = feed.updates,
                            .configs = feed.configs,
                            .ends = feed.ends,
                            .deliveries = feed.source->deliveries(),
                            .undelivered = feed.source->uncommitted(),
                            .refusal = sessions_.at(feed.source->channel()).first.refusal()});
  }
  return out;
}

}  // namespace

std::uint64_t DeliveryReport::undelivered() const {
  std::uint64_t out = 0;
  for (const FileReport& file : files)
    for (const RankReport& rank : file.ranks) out += rank.undelivered;
  return out;
}

std::vector<StageInfo> stages_of(const Profile& profile) {
  std::map<std::string, StageInfo> stages;
  for (const auto& [stage, parent] : profile.parents) stages[stage].parent = parent;
  for (const auto& [stage, kind] : profile.kinds) stages[stage].kind = kind;
  std::vector<StageInfo> out;
  for (auto& [name, stage] : stages) {
    stage.name = name;
    out.push_back(std::move(stage));
  }
  return out;
}

DeliveryReport deliver_files(const DeliveryOptions& options) {
  if (!is_utf8(options.run)) throw Error("the run's name is not UTF-8");
  if (options.once)
    if (const auto missing = missing_files(options.files); !missing.empty()) throw Error(missing.front());
  return Delivery(options).run();
}

}  // namespace laggard::agent
