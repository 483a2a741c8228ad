// What the ingest thread and the engine thread tell each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/core/collector.h"

namespace laggard::ingest {

/// A connection's channel, as the ingest thread numbers it. Never used twice.
using SessionId = std::uint64_t;

struct HelloMessage {
  SessionId session = 0;
  core::Hello hello;
  std::vector<Layout> layouts;
};
struct ItemsMessage {
  core::SourceKey source = 0;
  core::Items items;
};
struct HeartbeatMessage {
  core::SourceKey source = 0;
  std::optional<core::LineTotals> lines;
};
struct ByeMessage {
  core::SourceKey source = 0;
  bool finished = false;
};
/// To the engine.
using Message = std::variant<HelloMessage, ItemsMessage, HeartbeatMessage, ByeMessage>;

struct WelcomeReply {
  SessionId session = 0;
  core::Welcomed welcomed;
};
struct RefusedReply {
  SessionId session = 0;
  std::string reason;
};
using AckReply = core::AckInfo;
/// From the engine.
using Reply = std::variant<WelcomeReply, RefusedReply, AckReply>;

}  // namespace laggard::ingest
