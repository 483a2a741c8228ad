// One source's exchange with the collector.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "agent/line_counts.h"
#include "agent/messages.h"
#include "agent/rank_source.h"

namespace laggard::agent {

/// Decides what a source says next and when it has to open its delivery again. It knows no socket; time is
/// passed in.
class Session {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kHeartbeatInterval{2};
  /// After so long without a word that it is owed, a session says Hello again.
  static constexpr std::chrono::seconds kSilence{6};
  /// A session that was told to say Hello again does so at most this often.
  static constexpr std::chrono::seconds kHelloInterval{1};
  /// A source that was refused is offered again after so long: its key, or its name, may be allowed by then.
  static constexpr std::chrono::seconds kRefusedInterval{30};

  /// `lines` go out with the heartbeats of a file's first source; null for its others.
  Session(RankSource& source, const LineCounts* lines) : source_(source), lines_(lines) {}

  /// The next message to send; nothing when there is none now.
  std::optional<std::string> next_message(Time now);
  void on_message(const Incoming& message, Time now);
  /// What the Hello says has changed: it is said again, at once.
  void greet_again();
  /// Nothing that was said on the lost connection counts: a source that was refused is offered again.
  void on_disconnect();

  RankSource& source() { return source_; }
  const RankSource& source() const { return source_; }
  bool is_open() const { return state_ == State::open; }
  /// Why the collector did not take this source when it was asked last; "" when it did.
  const std::string& refusal() const { return refusal_; }
  /// Of the collector that said Welcome last; "" before the first one.
  const std::string& collector_id() const { return collector_id_; }
  /// What became of the file's lines; nothing for its other sources.
  std::optional<LineTotals> lines() const {
    return lines_ == nullptr ? std::nullopt : std::optional(lines_->totals());
  }
  /// True when the collector lost items that it had acknowledged.
  bool collector_forgot() const { return collector_forgot_; }

 private:
  enum class State : std::uint8_t { closed, asked, open, refused };

  void on(const Welcome& welcome, Time now);
  void on(const Reject& reject, Time now);
  void on(const Ack& ack, Time now);
  void on(const Heartbeat&, Time) {}
  void on(const Bye&, Time) {}
  bool is_owed_and_silent(Time now) const;

  RankSource& source_;
  const LineCounts* lines_;
  State state_ = State::closed;
  std::optional<Time> last_hello_;
  Time owed_since_{};  // when the session began to wait, or heard something while it waited
  Time last_heartbeat_{}, refused_at_{};
  int acks_without_progress_ = 0;
  std::string refusal_, collector_id_;
  bool collector_forgot_ = false;
};

}  // namespace laggard::agent
