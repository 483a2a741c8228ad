#include "daemon/ingest/sessions.h"

#include <algorithm>

#include "daemon/base/limits.h"
#include "proto/codec.h"
#include "proto/version.h"
#include "proto/wire.pb.h"

namespace laggard::ingest {
namespace {

// An agent speaks every 2 s; a peer that has said nothing for this long has no use for its session.
constexpr std::int64_t kForgetAfterMs = 60'000;
// No source sends so many items; numbers beyond are made up.
constexpr std::uint64_t kMostItems = std::uint64_t{1} << 53;

// Of all sources together may be on its way: less than what the engine holds before it takes no more, since
// among many ranks it may not be the step that the others wait for. Each may always send a little.
constexpr std::size_t kItemsOnTheirWay = 131'072;
constexpr std::size_t kLeastCredit = 128;

constexpr const char* kRevoked = "this agent's key is no longer on the collector's allow-list";

Outgoing pack(const std::string& peer, const wire::Envelope& envelope) {
  return {peer, envelope.SerializeAsString()};
}

std::size_t longest_name(const Layout& layout) {
  std::size_t longest = 0;
  for (const auto* names :
       {&layout.stream, &layout.host, &layout.calls, &layout.counts, &layout.int_values, &layout.values})
    for (const std::string& name : *names) longest = std::max(longest, name.size());
  return longest;
}

bool is_sound(const Layout& layout) {
  return longest_name(layout) <= limits::kMaxNameBytes && layout.name_count() <= limits::kMaxNamesPerRecord;
}

bool is_sound(const google::protobuf::RepeatedPtrField<wire::StageInfo>& stages) {
  return static_cast<std::size_t>(stages.size()) <= limits::kMaxNamesPerRecord &&
         std::all_of(stages.begin(), stages.end(), [](const wire::StageInfo& stage) {
           return std::max({stage.name().size(), stage.parent().size(), stage.kind().size()}) <=
                  limits::kMaxNameBytes;
         });
}

bool is_sound(const RecordRest& rest) {
  std::size_t bins = 0;
  for (const Histogram& histogram : rest.histograms) {
    bins += histogram.bins.size() + 1;
    if (histogram.name.size() > limits::kMaxNameBytes) return false;
    for (const auto& [key, count] : histogram.bins)
      if (key.size() > limits::kMaxNameBytes) return false;
  }
  return rest.tags.size() <= limits::kMaxNamesPerRecord && bins <= limits::kMaxHistogramBins &&
         rest.extra.size() <= limits::kMaxExtraBytes &&
         std::all_of(rest.tags.begin(), rest.tags.end(),
                     [](const std::string& tag) { return tag.size() <= limits::kMaxNameBytes; });
}

bool is_sound(const PackedRecords& records, Rank rank) {
  const auto& columns = records.columns();
  return records.size() > 0 && records.size() <= limits::kMaxRecordsPerBatch &&
         std::all_of(columns.sample_counts.begin(), columns.sample_counts.end(),
                     [](std::uint32_t n) { return n <= limits::kMaxSampleIndices; }) &&
         std::all_of(columns.rests.begin(), columns.rests.end(),
                     [](const RecordRest& rest) { return is_sound(rest); }) &&
         std::all_of(columns.ranks.begin(), columns.ranks.end(), [&](Rank r) { return r == rank; }) &&
         std::all_of(columns.steps.begin(), columns.steps.end(), [](Step step) { return step >= 0; });
}

core::LineTotals line_totals(const wire::LineCounts& lines) {
  return {lines.accepted(), lines.foreign(), lines.rejected(), lines.pending_tail()};
}

}  // namespace

std::optional<std::string> bad_name(std::string_view name, std::size_t most) {
  if (name.empty()) return "it is empty";
  if (name.size() > most) return "it is longer than " + std::to_string(most) + " bytes";
  const bool control = std::any_of(name.begin(), name.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u < 0x20 || u == 0x7f;
  });
  if (control) return "it holds a control character";
  return std::nullopt;
}

void Sessions::allow_only(std::shared_ptr<const keys::AllowList> list, std::vector<Outgoing>& out) {
  allowed_ = std::move(list);
  std::vector<SessionId> gone;
  for (const auto& [id, session] : sessions_) {
    const auto why = forbids(session.user, session.run);
    if (!why.has_value()) continue;
    refuse({session.peer, session.channel}, *why, false, out);
    gone.push_back(id);
  }
  for (const SessionId id : gone) erase(id);
}

bool Sessions::is_allowed(std::string_view user) const {
  return allowed_ == nullptr || allowed_->find(user) != nullptr;
}

std::optional<std::string> Sessions::forbids(std::string_view user, std::string_view run) const {
  if (!is_allowed(user)) return kRevoked;
  if (allowed_ == nullptr || allowed_->find(user)->may_deliver(run)) return std::nullopt;
  return "this agent's key may not deliver the run " + std::string(run) + ", only others";
}

std::nullopt_t Sessions::malformed() {
  ++counts_.messages_malformed;
  return std::nullopt;
}

std::optional<Message> Sessions::receive(std::string_view peer, std::string_view bytes, core::UnixMs now,
                                         std::vector<Outgoing>& out, std::string_view user) {
  ++counts_.messages;
  if (bytes.size() > limits::kMaxMessageBytes) {
    ++counts_.messages_too_large;
    return std::nullopt;
  }
  wire::Envelope envelope;
  if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return malformed();
  const Key key{std::string(peer), envelope.channel()};
  if (!is_allowed(user)) {
    ++counts_.messages_not_allowed;
    refuse(key, kRevoked, false, out);
    return std::nullopt;
  }
  if (envelope.body_case() == wire::Envelope::kHello) return greet(key, user, envelope.hello(), now, out);

  const auto known = by_key_.find(key);
  if (known == by_key_.end() || sessions_.at(known->second).source == 0) {
    // A collector that has restarted knows nobody: the agent says Hello again and goes on where we were. So
    // does one that took the welcome of its Hello before for that of its last one, and sends before it is
    // welcomed.
    if (known == by_key_.end() || envelope.body_case() == wire::Envelope::kBatch) {
      ++counts_.unknown_sessions;
      refuse(key, "no Hello was answered on this channel", true, out);
    }
    return std::nullopt;
  }
  Session& session = sessions_.at(known->second);
  session.last_heard = now;
  switch (envelope.body_case()) {
    case wire::Envelope::kBatch: {
      if (is_over_credit(session, envelope.batch())) {
        // Without an answer: a peer that does not count its credit would not mind one. It may say Hello
        // again.
        ++counts_.batches_over_credit;
        return std::nullopt;
      }
      std::optional<Message> message = take_batch(session, envelope.batch());
      // One that builds on a message that was lost looks just so: a Hello says everything again.
      if (!message.has_value()) refuse(key, "a batch that does not fit what was said before", true, out);
      return message;
    }
    case wire::Envelope::kHeartbeat: {
      wire::Envelope pong;
      pong.set_channel(key.second);
      pong.mutable_heartbeat();
      out.push_back(pack(key.first, pong));
      HeartbeatMessage message{.source = session.source};
      if (envelope.heartbeat().has_lines()) message.lines = line_totals(envelope.heartbeat().lines());
      return message;
    }
    case wire::Envelope::kBye: {
      // Answered, so that an agent can know that no later source of the rank meets this one alive.
      wire::Envelope answer;
      answer.set_channel(key.second);
      answer.mutable_bye();
      out.push_back(pack(key.first, answer));
      const ByeMessage message{session.source, envelope.bye().finished()};
      erase(session.id);
      return message;
    }
    default:
      return malformed();
  }
}

std::optional<Message> Sessions::greet(const Key& key, std::string_view user, const wire::Hello& hello,
                                       core::UnixMs now, std::vector<Outgoing>& out) {
  ++counts_.hellos;
  const auto refused = [&](const std::string& reason) {
    ++counts_.hellos_refused;
    refuse(key, reason, false, out);
    return std::nullopt;
  };
  if (hello.protocol_version() != kProtocolVersion)
    return refused("this collector speaks protocol version " + std::to_string(kProtocolVersion) +
                   ", the agent version " + std::to_string(hello.protocol_version()) +
                   ": install the same laggard version on both sides");
  if (const auto why = bad_name(hello.run(), limits::kMaxRunNameBytes))
    return refused("the run's name: " + *why);
  if (hello.run().find('@') != std::string::npos)
    return refused("the run's name: @ stands between a run and its attempt");
  if (const auto why = forbids(user, hello.run())) {
    ++counts_.hellos_not_allowed;
    return refused(*why);
  }
  const wire::Source& source = hello.source();
  if (hello.rank() >= limits::kMaxRank)
    return refused("rank " + std::to_string(hello.rank()) + " is beyond " + std::to_string(limits::kMaxRank));
  if (bad_name(source.id(), limits::kMaxNameBytes) || source.host().size() > limits::kMaxNameBytes ||
      source.origin().size() > limits::kMaxOriginBytes)
    return refused("a Hello without a usable source");
  if (!is_sound(hello.stages())) return refused("too many stages of a job profile, or too long names");

  if (static_cast<std::size_t>(hello.layouts_size()) > limits::kMaxLayoutsPerSource)
    return refused("more than " + std::to_string(limits::kMaxLayoutsPerSource) + " record shapes");
  std::vector<Layout> layouts;
  for (const wire::Layout& layout : hello.layouts()) {
    layouts.push_back(codec::from_wire(layout));
    if (!is_sound(layouts.back())) return refused("a record shape with too many or too long names");
  }
  if (const auto known = by_key_.find(key); known != by_key_.end()) erase(known->second);
  if (sessions_.size() >= limits::kMaxSessions) {
    ++counts_.sessions_refused;
    return refused("this collector serves " + std::to_string(limits::kMaxSessions) +
                   " sources, the most it can");
  }
  const SessionId id = next_++;
  sessions_[id] = {.id = id,
                   .peer = key.first,
                   .channel = key.second,
                   .rank = hello.rank(),
                   .layouts = layouts,
                   .last_heard = now,
                   .user = std::string(user),
                   .run = hello.run()};
  by_key_[key] = id;

  HelloMessage message{.session = id, .layouts = std::move(layouts)};
  message.hello = {.run = hello.run(),
                   .rank = hello.rank(),
                   .source_id = source.id(),
                   .host = source.host(),
                   .origin = source.origin(),
                   .pid = source.pid(),
                   .started_unix_ms = source.started_unix_ms(),
                   .attempt_offset = hello.attempt_offset(),
                   .resumed = hello.resumed()};
  for (const wire::StageInfo& stage : hello.stages()) {
    if (!stage.parent().empty()) message.hello.stage_parents.emplace(stage.name(), stage.parent());
    if (!stage.kind().empty()) message.hello.stage_kinds.emplace(stage.name(), stage.kind());
  }
  return message;
}

std::optional<Message> Sessions::take_batch(Session& session, const wire::Batch& batch) {
  if (batch.first_seq() == 0 || batch.first_seq() > kMostItems || batch.attempt() == 0 ||
      batch.attempt() > limits::kMaxAttempt)
    return malformed();
  ItemsMessage message{.source = session.source};
  core::Items& items = message.items;
  items.first_seq = batch.first_seq();
  items.dropped_before = batch.dropped_before();
  items.attempt = batch.attempt();
  items.explicit_attempt = batch.explicit_attempt();
  items.first_layout = batch.first_layout();
  if (items.first_layout > session.layouts.size()) return malformed();
  for (const wire::Layout& in : batch.layouts()) {
    Layout layout = codec::from_wire(in);
    const std::size_t index = items.first_layout + items.layouts.size();
    if (!is_sound(layout) || index >= limits::kMaxLayoutsPerSource) return malformed();
    if (index < session.layouts.size() && session.layouts[index] != layout) return malformed();
    items.layouts.push_back(std::move(layout));
  }
  const std::size_t known = session.layouts.size();
  switch (batch.items_case()) {
    case wire::Batch::kRecords: {
      PackedRecords records;
      const auto layout_of = [&](LayoutId id) -> const Layout* {
        if (id < known) return &session.layouts[id];
        const std::size_t fresh = id - items.first_layout;
        return fresh < items.layouts.size() ? &items.layouts[fresh] : nullptr;
      };
      if (codec::from_wire(batch.records(), layout_of, &records).has_value() ||
          !is_sound(records, session.rank))
        return malformed();
      items.what = std::move(records);
      break;
    }
    case wire::Batch::kConfig:
      if (batch.config().settings().size() > limits::kMaxSettingsBytes ||
          batch.config().world_size() > limits::kMaxRank)
        return malformed();
      items.what = core::ConfigItem{batch.config().world_size(), batch.config().settings()};
      break;
    case wire::Batch::kEnd:
      items.what = core::EndItem{};
      break;
    default:
      return malformed();
  }
  for (std::size_t i = known - items.first_layout; i < items.layouts.size(); ++i)
    session.layouts.push_back(items.layouts[i]);
  session.last_seq = std::max(session.last_seq, items.first_seq + items.count() - 1);
  counts_.items += items.count();
  return message;
}

// An agent never sends more than its credit, but may always have one batch on its way.
bool Sessions::is_over_credit(Session& session, const wire::Batch& batch) {
  const auto count = static_cast<std::uint64_t>(std::max(batch.records().steps_size(), 1));
  if (session.last_seq <= session.committed_seq) return false;
  // Numbers that the sender has lost are no items.
  const std::uint64_t expected = session.last_seq + 1;
  const std::uint64_t skipped =
      batch.first_seq() > expected ? std::min(batch.dropped_before(), batch.first_seq() - expected) : 0;
  if (batch.first_seq() + count - 1 > session.allowed_seq + skipped) return true;
  session.allowed_seq += skipped;
  return false;
}

void Sessions::Session::tell(std::uint64_t committed, std::uint32_t credit) {
  committed_seq = std::max(committed_seq, committed);
  allowed_seq = std::max(allowed_seq, committed + credit);
}

void Sessions::refuse(const Key& key, std::string reason, bool hello_again, std::vector<Outgoing>& out) {
  wire::Envelope envelope;
  envelope.set_channel(key.second);
  envelope.mutable_reject()->set_reason(std::move(reason));
  envelope.mutable_reject()->set_hello_again(hello_again);
  out.push_back(pack(key.first, envelope));
}

const std::string* Sessions::peer_of(core::SourceKey source) const {
  const auto it = by_source_.find(source);
  return it == by_source_.end() ? nullptr : &sessions_.at(it->second).peer;
}

std::optional<Outgoing> Sessions::answer(const Reply& reply) {
  wire::Envelope envelope;
  SessionId id = 0;
  if (const auto* welcome = std::get_if<WelcomeReply>(&reply)) {
    id = welcome->session;
    const auto it = sessions_.find(id);
    if (it == sessions_.end()) return std::nullopt;
    it->second.source = welcome->welcomed.source;
    // A source has one session: the one that said Hello last.
    if (const auto before = by_source_.find(welcome->welcomed.source);
        before != by_source_.end() && before->second != id)
      erase(before->second);
    by_source_[welcome->welcomed.source] = id;
    it->second.last_seq = welcome->welcomed.committed_seq;
    it->second.tell(welcome->welcomed.committed_seq, credit());
    wire::Welcome& to = *envelope.mutable_welcome();
    to.set_committed_seq(welcome->welcomed.committed_seq);
    to.set_window_records(credit());
    to.set_max_message_bytes(limits::kMaxMessageBytes);
    to.set_collector_id(collector_id_);
    to.set_attempt_offset(welcome->welcomed.attempt_offset);
  } else if (const auto* refused = std::get_if<RefusedReply>(&reply)) {
    id = refused->session;
    ++counts_.hellos_refused;
    envelope.mutable_reject()->set_reason(refused->reason);
  } else if (const auto* forgotten = std::get_if<ForgottenReply>(&reply)) {
    const auto it = by_source_.find(forgotten->source);
    if (it == by_source_.end()) return std::nullopt;
    id = it->second;
    envelope.mutable_reject()->set_reason("this source is known no longer");
    envelope.mutable_reject()->set_hello_again(true);
  } else {
    const auto& ack = std::get<AckReply>(reply);
    const auto it = by_source_.find(ack.source);
    if (it == by_source_.end()) return std::nullopt;
    id = it->second;
    sessions_.at(id).tell(ack.committed_seq, credit());
    wire::Ack& to = *envelope.mutable_ack();
    to.set_committed_seq(ack.committed_seq);
    to.set_credit(credit());
    to.set_attempt_offset(ack.attempt_offset);
    to.set_stored(ack.counts.stored);
    to.set_duplicate(ack.counts.duplicate);
    to.set_conflict(ack.counts.conflict);
    to.set_late(ack.counts.late);
    to.set_rejected(ack.counts.rejected);
  }
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return std::nullopt;
  envelope.set_channel(it->second.channel);
  Outgoing out = pack(it->second.peer, envelope);
  if (envelope.body_case() == wire::Envelope::kReject) erase(id);
  return out;
}

std::uint32_t Sessions::credit() const {
  const std::size_t share = kItemsOnTheirWay / std::max<std::size_t>(sessions_.size(), 1);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(share, kLeastCredit, limits::kWindowRecords));
}

void Sessions::erase(SessionId id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  by_key_.erase({it->second.peer, it->second.channel});
  if (const auto source = by_source_.find(it->second.source);
      source != by_source_.end() && source->second == id)
    by_source_.erase(source);
  sessions_.erase(it);
}

void Sessions::drop_peer(const std::string& peer) {
  std::vector<SessionId> gone;
  for (auto it = by_key_.lower_bound({peer, 0}); it != by_key_.end() && it->first.first == peer; ++it)
    gone.push_back(it->second);
  for (const SessionId id : gone) erase(id);
}

void Sessions::drop_silent(core::UnixMs now, core::UnixMs listening_since) {
  std::vector<SessionId> gone;
  for (const auto& [id, session] : sessions_)
    if (now - std::max(session.last_heard, listening_since) > kForgetAfterMs) gone.push_back(id);
  for (const SessionId id : gone) erase(id);
}

Counts Sessions::counts() const {
  Counts counts = counts_;
  counts.sessions = sessions_.size();
  return counts;
}

}  // namespace laggard::ingest
