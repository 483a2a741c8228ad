// The agent's side of the wire format; protobuf stays behind it. proto/wire.proto says what the fields mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/base/record.h"

namespace laggard::agent {

/// Who delivers: one agent incarnation feeding one rank.
struct SourceIdentity {
  std::string id;  ///< random
  std::string host;
  std::uint32_t pid = 0;
  std::int64_t started_unix_ms = 0;
  std::string origin;  ///< the followed file's absolute path, or "api"
};

struct StageInfo {
  std::string name, parent, kind;
};

struct Hello {
  std::string run;
  Rank rank = 0;
  SourceIdentity source;
  std::uint32_t attempt_offset = 0;
  bool resumed = false;
  std::vector<StageInfo> stages;
};

/// What every batch says of itself.
struct BatchHead {
  std::uint64_t first_seq = 0;
  std::uint32_t attempt = 1;
  bool explicit_attempt = false;
};

struct LineTotals {
  std::uint64_t accepted = 0, foreign = 0, rejected = 0, pending_tail = 0;
};

struct Welcome {
  std::uint64_t committed_seq = 0;
  std::uint32_t window_records = 0;
  std::uint32_t attempt_offset = 0;
  std::string collector_id;
};

struct Reject {
  std::string reason;
  bool hello_again = false;
};

/// What the collector made of a source's items.
struct Deliveries {
  std::uint64_t stored = 0, duplicate = 0, conflict = 0, late = 0, rejected = 0;
};

struct Ack {
  std::uint64_t committed_seq = 0;
  std::uint32_t credit = 0;
  std::uint32_t attempt_offset = 0;
  Deliveries deliveries;
};

struct Heartbeat {};
/// The answer to a Bye.
struct Bye {};

struct Incoming {
  std::uint32_t channel = 0;
  std::variant<Heartbeat, Welcome, Reject, Ack, Bye> body;
};

/// Nothing when the bytes are no message that a collector sends.
std::optional<Incoming> decode(std::string_view bytes);

std::string encode_hello(std::uint32_t channel, const Hello& hello, const LayoutTable& layouts);
std::string encode_records(std::uint32_t channel, const BatchHead& head, const PackedRecords& records);
std::string encode_config(std::uint32_t channel, const BatchHead& head, std::uint32_t world_size,
                          const std::string& settings);
std::string encode_end(std::uint32_t channel, const BatchHead& head);
/// The layouts from `first` to before `end`, to be appended to an encoded batch: protobuf merges what stands
/// twice.
std::string encode_batch_layouts(const LayoutTable& layouts, LayoutId first, LayoutId end);
/// To be appended likewise: so many items just before this batch were dropped.
std::string encode_dropped_before(std::uint64_t items);
std::string encode_heartbeat(std::uint32_t channel, const std::optional<LineTotals>& lines);
std::string encode_bye(std::uint32_t channel, bool finished);

}  // namespace laggard::agent
