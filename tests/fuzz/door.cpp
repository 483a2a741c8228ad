#include "tests/fuzz/door.h"

#include <nlohmann/json.hpp>

#include "daemon/serve/api.h"
#include "daemon/serve/event_log.h"
#include "daemon/serve/record_lines.h"
#include "proto/codec.h"
#include "tests/fuzz/fuzzer.h"

namespace laggard::fuzz {
namespace {

constexpr core::UnixMs kBetweenMessagesMs = 700;
constexpr const char* kPeer = "peer";

void check_blocks(const core::Writes& writes, const std::vector<Layout>& layouts) {
  const auto layout_of = [&](LayoutId id) { return id < layouts.size() ? &layouts[id] : nullptr; };
  codec::BlockEncoder encoder;
  for (const core::StepRow& row : writes.steps) {
    for (const auto& [number, block] : row.blocks) {
      const std::string stored(encoder.encode(*block));
      PackedRecords again;
      require(!codec::decode_block(stored, row.view->breakdown.step, layout_of, &again).has_value(),
              "a block that was stored can be read");
      require(encoder.encode(again) == stored, "a block reads back as it was");
    }
  }
}

void ask(const serve::Api& api, const std::string& target) {
  const serve::Reply reply = api.handle({.method = "GET", .target = target});
  const auto* answer = std::get_if<serve::Answer>(&reply);
  require(answer != nullptr && answer->status == 200, "a live answer");
  if (answer->content_type == "application/json")
    require(nlohmann::json::accept(answer->body), "JSON in an answer that says so");
}

void look_at(const std::shared_ptr<const core::Snapshot>& snapshot, core::UnixMs now) {
  serve::QueryService service({.version = "0",
                               .collector_id = "collector",
                               .ingest = "",
                               .started = now,
                               .now = [now] { return now; },
                               .snapshot = [&snapshot] { return snapshot; },
                               .storage = [] { return serve::StorageFacts{}; },
                               .close = [](const std::string&) {}});
  serve::Counters counters;
  const serve::Api api(service, counters, serve::Access{});
  for (const char* target : {"/api/v1/status", "/api/v1/runs", "/metrics?ranks=1"}) ask(api, target);
  for (const auto& run : snapshot->runs)
    if (run->name == "job" && run->newest != nullptr) ask(api, "/api/v1/runs/job");
  serve::EventLog events;
  events.update(snapshot);
  (void)events.read(0, "", 1 << 20);
}

}  // namespace

void Door::receive(std::string_view bytes, std::vector<std::string>* answers) {
  std::vector<ingest::Outgoing> out;
  const std::optional<ingest::Message> message = sessions_.receive(kPeer, bytes, now_, out);
  for (ingest::Outgoing& each : out) answers->push_back(std::move(each.bytes));
  if (message.has_value()) handle(*message, answers);
  now_ += kBetweenMessagesMs;
  collector_->tick(now_);
  commit(1000, answers);
}

void Door::handle(const ingest::Message& message, std::vector<std::string>* answers) {
  if (const auto* hello = std::get_if<ingest::HelloMessage>(&message)) {
    const auto result = collector_->hello(hello->hello, hello->layouts, now_);
    if (const auto* welcomed = std::get_if<core::Welcomed>(&result))
      answer(ingest::WelcomeReply{hello->session, *welcomed}, answers);
    else
      answer(ingest::RefusedReply{hello->session, std::get<core::Refused>(result).reason}, answers);
  } else if (const auto* items = std::get_if<ingest::ItemsMessage>(&message)) {
    if (collector_->apply(items->source, items->items, now_) != core::Collector::Taken::taken)
      answer(collector_->ack_of(items->source), answers);
  } else if (const auto* heartbeat = std::get_if<ingest::HeartbeatMessage>(&message)) {
    collector_->heartbeat(heartbeat->source, heartbeat->lines, now_);
  } else {
    const auto& bye = std::get<ingest::ByeMessage>(message);
    collector_->bye(bye.source, bye.finished, now_);
  }
}

void Door::answer(const ingest::Reply& reply, std::vector<std::string>* answers) {
  if (std::optional<ingest::Outgoing> out = sessions_.answer(reply))
    answers->push_back(std::move(out->bytes));
}

void Door::commit(std::int64_t max_wait_ms, std::vector<std::string>* answers) {
  const core::Writes writes = collector_->collect(now_, max_wait_ms);
  archive_.commit(writes);
  check_blocks(writes, archive_.layouts);
  for (const core::AckInfo& ack : collector_->committed()) answer(ack, answers);
}

void Door::finish() {
  std::vector<std::string> answers;
  commit(0, &answers);
  look_at(collector_->snapshot(now_, {}), now_);
  now_ += 100'000;
  collector_->tick(now_);
  commit(0, &answers);
  look_at(collector_->snapshot(now_, {}), now_);
  core::Collector again(options_, archive_.restored(), archive_, now_);
  look_at(again.snapshot(now_, {}), now_);
}

std::uint64_t Door::items_accounted_for() {
  std::uint64_t items = 0;
  const std::shared_ptr<const core::Snapshot> snapshot = collector_->snapshot(now_, {});
  for (const auto& run : snapshot->runs)
    for (const auto& [number, attempt] : run->live_attempts) {
      const core::DeliveryCounts& counts = attempt->counts;
      items += counts.stored + counts.duplicate + counts.conflict + counts.rejected + counts.dropped;
    }
  return items;
}

}  // namespace laggard::fuzz
