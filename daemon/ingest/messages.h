// What the ingest thread and the engine thread tell each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
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

/// Whose message it is; nothing for a Hello.
inline std::optional<core::SourceKey> source_of(const Message& message) {
  return std::visit(
      [](const auto& what) -> std::optional<core::SourceKey> {
        if constexpr (std::is_same_v<std::decay_t<decltype(what)>, HelloMessage>)
          return std::nullopt;
        else
          return what.source;
      },
      message);
}

struct WelcomeReply {
  SessionId session = 0;
  core::Welcomed welcomed;
};
struct RefusedReply {
  SessionId session = 0;
  std::string reason;
};
/// The source's run was deleted: it has to say Hello again.
struct ForgottenReply {
  core::SourceKey source = 0;
};
using AckReply = core::AckInfo;
/// From the engine.
using Reply = std::variant<WelcomeReply, RefusedReply, ForgottenReply, AckReply>;

}  // namespace laggard::ingest
