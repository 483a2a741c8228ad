#include "agent/connection_log.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace laggard::agent {
namespace {

constexpr std::chrono::seconds kWarnWithout{1};  // without a collector, before that is worth a line
// A collector that is stopped in the middle of a handshake hangs up too, but not again and again.
constexpr int kWorthALine = 2;

}  // namespace

ConnectionLog::ConnectionLog(std::string collector, const std::optional<keys::PeerKeys>& keys,
                             spdlog::logger& log)
    : log_(log),
      collector_(std::move(collector)),
      public_key_(keys.has_value() ? keys->own.public_key : "") {}

void ConnectionLog::note(CollectorLink::Event event, CollectorLink::Refusal refusal) {
  switch (event) {
    case CollectorLink::Event::connected:
      if (lost_ || !greeted_ || said_ != CollectorLink::Refusal::none)
        log_.info("connected to the collector at {}", collector_);
      lost_ = false;
      greeted_ = true;
      hung_up_ = 0;
      said_ = CollectorLink::Refusal::none;
      return;
    case CollectorLink::Event::disconnected:
      if (!std::exchange(lost_, true))
        log_.warn("lost the collector at {}; delivering again when it is back", collector_);
      return;
    case CollectorLink::Event::refused:
      note_refusal(refusal);
  }
}

void ConnectionLog::note_refusal(CollectorLink::Refusal refusal) {
  using Refusal = CollectorLink::Refusal;
  if (refusal == Refusal::hung_up) {
    // Says less than what may have been said before.
    if (++hung_up_ < kWorthALine || said_ != Refusal::none) return;
  }
  lost_ = true;
  if (std::exchange(said_, refusal) != refusal) log_.error("{}; trying on", sentence(refusal));
}

void ConnectionLog::note_absence(std::chrono::steady_clock::duration since_start) {
  if (lost_ || hung_up_ > 0 || since_start <= kWarnWithout) return;
  log_.warn("no collector at {} yet; delivering when it comes", collector_);
  lost_ = true;
}

std::string ConnectionLog::sentence(CollectorLink::Refusal refusal) const {
  using Refusal = CollectorLink::Refusal;
  const std::string who = "the collector at " + collector_;
  const bool keys = !public_key_.empty();
  switch (refusal) {
    case Refusal::none:
      return "";
    case Refusal::key_not_allowed:
      return who + " does not allow this agent's key: on its machine, laggard keys allow '" + public_key_ +
             "'";
    case Refusal::one_side_without_key:
      return keys ? who + " works without keys: start it with --ingest-key, or this side without a key"
                  : who + " wants a key: give this agent one with --key and --collector-key";
    case Refusal::other_collector:
      return who + " is not the one whose public key was given with --collector-key";
    case Refusal::hung_up:
      break;
  }
  return keys ? who +
                    " hangs up: most likely its public key is not the one of --collector-key, or it works "
                    "without keys"
              : who +
                    " hangs up: most likely it wants a key (--key and --collector-key), or this is the port "
                    "for questions (17601), not the one for records (17600)";
}

}  // namespace laggard::agent
