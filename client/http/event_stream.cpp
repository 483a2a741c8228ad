#include "client/http/event_stream.h"

#include "client/failure.h"
#include "client/http/connection.h"

namespace laggard::client {
namespace {

using Clock = std::chrono::steady_clock;
namespace http = boost::beast::http;

// Three of the collector's keep-alive comments.
constexpr std::chrono::seconds kSilence{45};

}  // namespace

struct EventStream::Impl {
  explicit Impl(const Endpoint& endpoint) : connection(endpoint) {}

  void read_on() {
    connection.start_piece([this](const boost::system::error_code& error, std::size_t) {
      ended = error && error != http::error::need_buffer;
      if (ended) return;
      last_bytes = Clock::now();
      for (auto& event : parser.feed(connection.piece())) events.push_back(std::move(event));
      ended = connection.body_done();
      if (!ended) read_on();
    });
  }

  Connection connection;
  SseParser parser;
  std::vector<ServerEvent> events;
  Clock::time_point last_bytes = Clock::now();
  bool ended = false;
};

EventStream::EventStream(const Endpoint& endpoint, const std::string& target,
                         const std::function<void(const HttpAnswer&)>& refused)
    : impl_(std::make_unique<Impl>(endpoint)) {
  impl_->connection.exchange({.method = "GET", .target = target, .body = {}}, kConnectTimeout);
  if (impl_->connection.status() != 200) refused(rest_of_answer(impl_->connection, kConnectTimeout));
  impl_->connection.io().restart();
  impl_->read_on();
}

EventStream::~EventStream() = default;

std::vector<ServerEvent> EventStream::wait(std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (impl_->events.empty() && !impl_->ended && impl_->connection.io().run_one_until(deadline) > 0) {
  }
  // What came before the end is still news.
  if (!impl_->events.empty()) return std::exchange(impl_->events, {});
  if (impl_->ended || Clock::now() - impl_->last_bytes > kSilence) {
    throw NoAnswer(ExitCode::unreachable, "the collector has ended the stream of events");
  }
  return {};
}

}  // namespace laggard::client
