#include "agent/session.h"

namespace laggard::agent {

std::optional<std::string> Session::next_message(Time now) {
  if (state_ == State::refused && now - refused_at_ >= kRefusedInterval) state_ = State::closed;
  if (state_ == State::refused || collector_forgot_) return std::nullopt;
  if (is_owed_and_silent(now)) state_ = State::closed;
  if (state_ == State::closed && (!last_hello_ || now - *last_hello_ >= kHelloInterval)) {
    state_ = State::asked;
    last_hello_ = owed_since_ = now;
    acks_without_progress_ = 0;
    return source_.hello();
  }
  if (state_ != State::open) return std::nullopt;
  const bool waiting = source_.in_flight();
  if (auto batch = source_.next_batch()) {
    if (!waiting) owed_since_ = now;
    return batch;
  }
  if (now - last_heartbeat_ < kHeartbeatInterval) return std::nullopt;
  last_heartbeat_ = now;
  return encode_heartbeat(source_.channel(), lines());
}

bool Session::is_owed_and_silent(Time now) const {
  const bool owed = state_ == State::asked || (state_ == State::open && source_.in_flight());
  return owed && now - owed_since_ > kSilence;
}

void Session::on_message(const Incoming& message, Time now) {
  owed_since_ = now;
  std::visit([&](const auto& body) { on(body, now); }, message.body);
}

void Session::on(const Welcome& welcome, Time) {
  if (state_ != State::asked) return;
  state_ = State::open;
  refusal_.clear();
  collector_id_ = welcome.collector_id;
  collector_forgot_ = !source_.on_welcome(welcome);
}

void Session::on(const Reject& reject, Time now) {
  if (reject.hello_again) {
    if (state_ == State::open) state_ = State::closed;
    return;
  }
  state_ = State::refused;
  refused_at_ = now;
  source_.on_refusal();
  refusal_ = reject.reason.empty() ? "refused without a reason" : reject.reason;
}

void Session::on(const Ack& ack, Time) {
  const std::uint64_t before = source_.committed_seq();
  if (state_ != State::open || ack.committed_seq < before) return;  // what it says was said better already
  source_.on_ack(ack);
  if (source_.committed_seq() > before || !source_.in_flight()) {
    acks_without_progress_ = 0;
  } else if (++acks_without_progress_ == 2) {
    // The collector repeats its last word when a batch before is missing; a Welcome says from where to go on.
    state_ = State::closed;
  }
}

void Session::greet_again() {
  if (state_ == State::refused) return;
  state_ = State::closed;
  last_hello_.reset();
}

void Session::on_disconnect() {
  state_ = State::closed;
  last_hello_.reset();
}

}  // namespace laggard::agent
