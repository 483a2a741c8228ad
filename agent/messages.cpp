#include "agent/messages.h"

#include "proto/codec.h"
#include "proto/version.h"
#include "proto/wire.pb.h"

namespace laggard::agent {
namespace {

wire::Envelope batch_envelope(std::uint32_t channel, const BatchHead& head) {
  wire::Envelope envelope;
  envelope.set_channel(channel);
  wire::Batch* batch = envelope.mutable_batch();
  batch->set_first_seq(head.first_seq);
  batch->set_attempt(head.attempt);
  batch->set_explicit_attempt(head.explicit_attempt);
  return envelope;
}

Welcome from_wire(const wire::Welcome& in) {
  return {.committed_seq = in.committed_seq(),
          .window_records = in.window_records(),
          .attempt_offset = in.attempt_offset(),
          .collector_id = in.collector_id()};
}

Ack from_wire(const wire::Ack& in) {
  return {.committed_seq = in.committed_seq(),
          .credit = in.credit(),
          .attempt_offset = in.attempt_offset(),
          .deliveries = {.stored = in.stored(),
                         .duplicate = in.duplicate(),
                         .conflict = in.conflict(),
                         .late = in.late(),
                         .rejected = in.rejected()}};
}

}  // namespace

std::optional<Incoming> decode(std::string_view bytes) {
  wire::Envelope envelope;
  if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  Incoming out{.channel = envelope.channel(), .body = Heartbeat{}};
  switch (envelope.body_case()) {
    case wire::Envelope::kWelcome:
      out.body = from_wire(envelope.welcome());
      break;
    case wire::Envelope::kReject:
      out.body = Reject{envelope.reject().reason(), envelope.reject().hello_again()};
      break;
    case wire::Envelope::kAck:
      out.body = from_wire(envelope.ack());
      break;
    case wire::Envelope::kBye:
      out.body = Bye{};
      break;
    case wire::Envelope::kHeartbeat:
      break;
    default:
      return std::nullopt;
  }
  return out;
}

std::string encode_hello(std::uint32_t channel, const Hello& hello, const LayoutTable& layouts) {
  wire::Envelope envelope;
  envelope.set_channel(channel);
  wire::Hello* out = envelope.mutable_hello();
  out->set_protocol_version(kProtocolVersion);
  out->set_run(hello.run);
  out->set_rank(hello.rank);
  wire::Source* source = out->mutable_source();
  source->set_id(hello.source.id);
  source->set_host(hello.source.host);
  source->set_pid(hello.source.pid);
  source->set_started_unix_ms(hello.source.started_unix_ms);
  source->set_origin(hello.source.origin);
  out->set_attempt_offset(hello.attempt_offset);
  out->set_resumed(hello.resumed);
  for (LayoutId id = 0; id < layouts.size(); ++id) codec::to_wire(layouts[id], out->add_layouts());
  for (const StageInfo& stage : hello.stages) {
    wire::StageInfo* to = out->add_stages();
    to->set_name(stage.name);
    to->set_parent(stage.parent);
    to->set_kind(stage.kind);
  }
  return envelope.SerializeAsString();
}

std::string encode_records(std::uint32_t channel, const BatchHead& head, const PackedRecords& records) {
  wire::Envelope envelope = batch_envelope(channel, head);
  codec::to_wire(records, envelope.mutable_batch()->mutable_records());
  return envelope.SerializeAsString();
}

std::string encode_config(std::uint32_t channel, const BatchHead& head, std::uint32_t world_size,
                          const std::string& settings) {
  wire::Envelope envelope = batch_envelope(channel, head);
  wire::Config* config = envelope.mutable_batch()->mutable_config();
  config->set_attempt(head.attempt);
  config->set_world_size(world_size);
  config->set_settings(settings);
  return envelope.SerializeAsString();
}

std::string encode_end(std::uint32_t channel, const BatchHead& head) {
  wire::Envelope envelope = batch_envelope(channel, head);
  envelope.mutable_batch()->mutable_end();
  return envelope.SerializeAsString();
}

std::string encode_batch_layouts(const LayoutTable& layouts, LayoutId first, LayoutId end) {
  wire::Envelope envelope;
  envelope.mutable_batch()->set_first_layout(first);
  for (LayoutId id = first; id < end; ++id)
    codec::to_wire(layouts[id], envelope.mutable_batch()->add_layouts());
  return envelope.SerializeAsString();
}

std::string encode_dropped_before(std::uint64_t items) {
  wire::Envelope envelope;
  envelope.mutable_batch()->set_dropped_before(items);
  return envelope.SerializeAsString();
}

std::string encode_heartbeat(std::uint32_t channel, const std::optional<LineTotals>& lines) {
  wire::Envelope envelope;
  envelope.set_channel(channel);
  wire::Heartbeat* heartbeat = envelope.mutable_heartbeat();
  if (lines.has_value()) {
    wire::LineCounts* counts = heartbeat->mutable_lines();
    counts->set_accepted(lines->accepted);
    counts->set_foreign(lines->foreign);
    counts->set_rejected(lines->rejected);
    counts->set_pending_tail(lines->pending_tail);
  }
  return envelope.SerializeAsString();
}

std::string encode_bye(std::uint32_t channel, bool finished) {
  wire::Envelope envelope;
  envelope.set_channel(channel);
  envelope.mutable_bye()->set_finished(finished);
  return envelope.SerializeAsString();
}

}  // namespace laggard::agent
