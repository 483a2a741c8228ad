// What an agent's log says about its connection: each thing once, however often it is tried again.
#pragma once

#include <spdlog/fwd.h>

#include <chrono>
#include <optional>
#include <string>

#include "agent/collector_link.h"

namespace laggard::agent {

class ConnectionLog {
 public:
  /// `log` must outlive it.
  ConnectionLog(std::string collector, const std::optional<keys::PeerKeys>& keys, spdlog::logger& log);

  void note(CollectorLink::Event event, CollectorLink::Refusal refusal);
  /// There has been no connection; `since_start` is how long the agent runs.
  void note_absence(std::chrono::steady_clock::duration since_start);

  /// What a refusal means and what to do about it; "" for none.
  std::string sentence(CollectorLink::Refusal refusal) const;

 private:
  void note_refusal(CollectorLink::Refusal refusal);

  spdlog::logger& log_;
  const std::string collector_;
  std::string public_key_;  // our own; "" without keys
  bool lost_ = false, greeted_ = false;
  int hung_up_ = 0;  // in a row
  CollectorLink::Refusal said_ = CollectorLink::Refusal::none;
};

}  // namespace laggard::agent
