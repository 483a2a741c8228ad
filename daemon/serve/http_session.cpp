#include "daemon/serve/http_session.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "daemon/base/limits.h"
#include "daemon/serve/query_error.h"

namespace laggard::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using beast::error_code;

constexpr std::size_t kReadBufferBytes = 64 << 10;
constexpr std::size_t kEventBatchBytes = 64 << 10;
constexpr std::string_view kNeedsTls =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    "{\"error\":{\"code\":\"needs_tls\",\"message\":\"this address speaks TLS only: use https://\"}}\n";
constexpr const char* kKeepAliveComment = ": still here\n\n";

/// The piece of an export that a worker made.
struct Piece {
  std::optional<Answer> error;
  std::string text;
  bool more = false;
};

/// Completes a co_await with the error instead of an exception.
auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

template <typename Result>
asio::awaitable<Result> call(std::function<Result()> work) {
  co_return work();
}

/// Runs `work` on a worker; the caller goes on where it was.
template <typename Result>
asio::awaitable<Result> on_worker(HttpShared& shared, std::function<Result()> work) {
  co_return co_await asio::co_spawn(shared.workers.get_executor(), call<Result>(std::move(work)),
                                    asio::use_awaitable);
}

/// True when a TLS handshake failed because its first bytes were a request of HTTP.
bool is_plain_http(error_code error) {
  const int reason =
      ERR_GET_REASON(static_cast<unsigned long>(error.value()));  // DELETE looks like a version
  return error.category() == asio::error::get_ssl_category() &&
         (reason == SSL_R_HTTP_REQUEST || reason == SSL_R_WRONG_VERSION_NUMBER);
}

std::string field(const http::request<http::string_body>& request, http::field name) {
  const auto value = request[name];
  return {value.data(), value.size()};
}

Request plain_request(http::request<http::string_body>& message) {
  return {.method = std::string(message.method_string()),
          .target = std::string(message.target()),
          .body = std::move(message.body()),
          .host = field(message, http::field::host),
          .origin = field(message, http::field::origin),
          .authorization = field(message, http::field::authorization),
          .last_event_id = std::string(message["Last-Event-ID"])};
}

template <typename Body>
void set_common_fields(http::response<Body>& response, const std::string& content_type) {
  response.set(http::field::content_type, content_type);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
}

Answer broken_answer(error_code error) {
  const auto refuse = [](int status, const char* code, const std::string& message) {
    return guarded([&]() -> Answer { throw QueryError(status, code, message); });
  };
  if (error == http::error::body_limit)
    return refuse(413, "too_large",
                  "a request's body has at most " + std::to_string(limits::kMaxHttpBodyBytes) + " bytes");
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return refuse(431, "too_large",
                  "a request's header has at most " + std::to_string(limits::kMaxHttpHeaderBytes) + " bytes");
  return refuse(400, "bad_request", "this is no HTTP request: " + error.message());
}

}  // namespace

std::unique_ptr<History> Histories::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<History> history = std::move(idle_.back());
      idle_.pop_back();
      return history;
    }
  }
  return open_();
}

void Histories::give(std::unique_ptr<History> history) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(history));
}

HttpSession::HttpSession(asio::ip::tcp::socket socket, HttpShared& shared)
    : shared_(shared),
      stream_(beast::tcp_stream(std::move(socket)), shared.tls.get()),
      buffer_(kReadBufferBytes),
      wake_timer_(stream_.get_executor()) {
  shared_.sessions.insert(this);
  ++shared_.counters.connections;
}

HttpSession::~HttpSession() {
  shared_.sessions.erase(this);
  --shared_.counters.connections;
}

void HttpSession::wake() {
  if (!sends_events_) return;
  if (is_writing_ && shared_.events.has_forgotten_after(position_)) {
    ++shared_.counters.event_clients_dropped;
    close();
  }
  wake_timer_.cancel();
}

void HttpSession::close() {
  error_code ignored;
  stream_.tcp().socket().close(ignored);
  wake_timer_.cancel();
}

asio::awaitable<void> HttpSession::run() {
  try {
    const bool begun = co_await shake_hands();
    if (begun) {
      while (co_await serve_one()) {
      }
      co_await say_goodbye();
    }
  } catch (const std::exception&) {
    ++shared_.counters.requests_broken;
  }
  close();
}

asio::awaitable<bool> HttpSession::shake_hands() {
  if (!stream_.has_tls()) co_return true;
  error_code error;
  stream_.tcp().expires_after(shared_.options.read_timeout);
  co_await stream_.async_handshake(asio::ssl::stream_base::server, into(error));
  if (!error) co_return true;
  ++shared_.counters.handshakes_failed;
  if (is_plain_http(error)) co_await asio::async_write(stream_.tcp(), asio::buffer(kNeedsTls), into(error));
  co_return false;
}

asio::awaitable<void> HttpSession::say_goodbye() {
  if (!stream_.has_tls() || !stream_.tcp().socket().is_open()) co_return;
  error_code ignored;
  stream_.tcp().expires_after(shared_.options.read_timeout);
  co_await stream_.async_shutdown(into(ignored));
}

asio::awaitable<bool> HttpSession::serve_one() {
  std::optional<Message> request = co_await read_request();
  if (!request.has_value()) co_return false;
  Reply reply = shared_.api.handle(plain_request(*request));
  if (auto* answer = std::get_if<Answer>(&reply))
    co_return co_await send_answer(*request, std::move(*answer));
  if (auto* asked = std::get_if<ExportAsked>(&reply))
    co_return co_await send_export(*request, std::move(*asked));
  if (auto* asked = std::get_if<EventsAsked>(&reply))
    co_return co_await send_events(*request, std::move(*asked));
  std::function<Answer()> work = [this, ask = std::get<StoredAnswer>(std::move(reply))] {
    return guarded([&] { return shared_.histories.with(ask); });
  };
  Answer answer = co_await on_worker(shared_, std::move(work));
  co_return co_await send_answer(*request, std::move(answer));
}

asio::awaitable<std::optional<HttpSession::Message>> HttpSession::read_request() {
  error_code error;
  if (buffer_.size() == 0) {
    stream_.tcp().expires_after(fresh_ ? shared_.options.read_timeout : shared_.options.idle_timeout);
    const std::size_t n = co_await stream_.async_read_some(buffer_.prepare(4096), into(error));
    if (error) co_return std::nullopt;
    buffer_.commit(n);
  }
  fresh_ = false;
  http::request_parser<http::string_body> parser;
  parser.header_limit(limits::kMaxHttpHeaderBytes);
  parser.body_limit(limits::kMaxHttpBodyBytes);
  stream_.tcp().expires_after(shared_.options.read_timeout);
  co_await http::async_read_header(stream_, buffer_, parser, into(error));
  if (!error && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const http::response<http::empty_body> go_on{http::status::continue_, parser.get().version()};
    co_await http::async_write(stream_, go_on, into(error));
  }
  if (!error) co_await http::async_read(stream_, buffer_, parser, into(error));
  if (!error) co_return parser.release();
  co_await refuse_broken(error);
  co_return std::nullopt;
}

asio::awaitable<void> HttpSession::refuse_broken(error_code error) {
  ++shared_.counters.requests_broken;
  const bool is_http_error = error.category() == make_error_code(http::error::bad_method).category();
  if (!is_http_error || error == http::error::partial_message || error == http::error::end_of_stream)
    co_return;
  Message nothing;
  nothing.version(11);
  nothing.keep_alive(false);
  Answer answer = broken_answer(error);
  co_await send_answer(nothing, std::move(answer));
  co_await drain();
}

asio::awaitable<void> HttpSession::drain() {
  // Closing a socket with unread bytes resets the connection, and the client loses the answer that says why.
  error_code error;
  // TLS has its own end to say afterwards.
  if (!stream_.has_tls()) stream_.tcp().socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  stream_.tcp().expires_after(shared_.options.read_timeout);
  std::size_t left = 4 * limits::kMaxHttpBodyBytes;
  std::vector<char> sink(16 << 10);
  while (!error && left > 0) {
    const std::size_t n = co_await stream_.async_read_some(asio::buffer(sink), into(error));
    left -= std::min(left, n);
  }
}

asio::awaitable<bool> HttpSession::send_answer(const Message& request, Answer answer) {
  http::response<http::string_body> response{static_cast<http::status>(answer.status), request.version()};
  set_common_fields(response, answer.content_type);
  if (!answer.allow.empty()) response.set(http::field::allow, answer.allow);
  if (answer.status == 401) response.set(http::field::www_authenticate, "Bearer realm=\"laggard\"");
  response.keep_alive(request.keep_alive());
  const std::size_t length = answer.body.size();
  if (request.method() != http::verb::head) response.body() = std::move(answer.body);
  response.content_length(length);
  shared_.counters.count_answer(answer.status);
  error_code error;
  stream_.tcp().expires_after(shared_.options.write_timeout);
  co_await http::async_write(stream_, response, into(error));
  co_return !error && request.keep_alive();
}

asio::awaitable<bool> HttpSession::begin_stream(const Message& request, std::string content_type) {
  http::response<http::empty_body> response{http::status::ok, request.version()};
  set_common_fields(response, content_type);
  response.keep_alive(request.version() >= 11 && request.keep_alive());
  response.chunked(request.version() >= 11);
  shared_.counters.count_answer(200);
  error_code error;
  http::response_serializer<http::empty_body> serializer{response};
  stream_.tcp().expires_after(shared_.options.write_timeout);
  co_await http::async_write_header(stream_, serializer, into(error));
  co_return !error;
}

asio::awaitable<bool> HttpSession::send_piece(const Message& request, const std::string& text) {
  if (text.empty()) co_return true;  // an empty chunk would end the stream
  error_code error;
  stream_.tcp().expires_after(shared_.options.write_timeout);
  if (request.version() >= 11)
    co_await asio::async_write(stream_, http::make_chunk(asio::buffer(text)), into(error));
  else
    co_await asio::async_write(stream_, asio::buffer(text), into(error));
  co_return !error;
}

asio::awaitable<bool> HttpSession::end_stream(const Message& request) {
  if (request.version() < 11) co_return false;
  error_code error;
  stream_.tcp().expires_after(shared_.options.write_timeout);
  co_await asio::async_write(stream_, http::make_chunk_last(), into(error));
  co_return !error && request.keep_alive();
}

asio::awaitable<bool> HttpSession::send_export(const Message& request, ExportAsked asked) {
  const auto records = std::make_shared<std::unique_ptr<Export>>();
  const std::function<Piece()> next_piece = [this, records, asked] {
    Piece piece;
    Answer answer = guarded([&] {
      return shared_.histories.with([&](History& history) {
        if (*records == nullptr) *records = std::make_unique<Export>(shared_.service, asked.attempt, history);
        piece.more = (*records)->next(history, &piece.text);
        return Answer{};
      });
    });
    if (answer.status != 200) piece.error = std::move(answer);
    return piece;
  };
  Piece piece = co_await on_worker(shared_, next_piece);
  if (piece.error.has_value()) co_return co_await send_answer(request, *std::move(piece.error));
  const bool begun = co_await begin_stream(request, "application/x-ndjson");
  if (!begun) co_return false;
  if (request.method() == http::verb::head) co_return request.keep_alive();
  for (;;) {
    // A stream that cannot be finished is cut off without its last chunk: the client sees that it is torn.
    if (piece.error.has_value()) co_return false;
    const bool sent = co_await send_piece(request, piece.text);
    if (!sent) co_return false;
    if (!piece.more) break;
    piece = co_await on_worker(shared_, next_piece);
  }
  co_return co_await end_stream(request);
}

void HttpSession::watch_for_hang_up() {
  // Nothing may come from a reader of events: readable means that it is gone.
  stream_.tcp().socket().async_wait(asio::ip::tcp::socket::wait_read,
                                    [self = shared_from_this()](error_code error) {
                                      if (error == asio::error::operation_aborted) return;
                                      self->hung_up_ = true;
                                      self->wake_timer_.cancel();
                                    });
}

asio::awaitable<void> HttpSession::wait_for_events(std::chrono::steady_clock::time_point until) {
  error_code ignored;
  wake_timer_.expires_at(until);
  co_await wake_timer_.async_wait(into(ignored));
}

asio::awaitable<bool> HttpSession::send_events(const Message& request, EventsAsked asked) {
  if (shared_.counters.event_clients >= std::min(limits::kMaxEventClients, shared_.options.connections / 2)) {
    ++shared_.counters.event_clients_refused;
    Answer answer = guarded([]() -> Answer {
      throw QueryError(503, "too_many", "too many clients read the event stream already", "ask again later");
    });
    co_return co_await send_answer(request, std::move(answer));
  }
  const bool begun = co_await begin_stream(request, "text/event-stream");
  if (!begun) co_return false;
  if (request.method() == http::verb::head) co_return request.keep_alive();
  const EventLog::Start start = shared_.events.start(asked.after);
  position_ = start.position;
  sends_events_ = true;
  ++shared_.counters.event_clients;
  watch_for_hang_up();
  // The first piece is sent at once, so that a client knows it is connected.
  std::string text = start.gap ? kGapEvent : kKeepAliveComment;
  bool sent = true;
  auto quiet_until = std::chrono::steady_clock::now();
  while (sent && !hung_up_ && stream_.tcp().socket().is_open()) {
    const EventLog::Batch batch = shared_.events.read(position_, asked.run, kEventBatchBytes);
    text += batch.text;
    if (text.empty() && batch.position == position_) {
      // Every snapshot ends the wait, and most have no news of this run.
      co_await wait_for_events(quiet_until);
      if (std::chrono::steady_clock::now() >= quiet_until) text = kKeepAliveComment;
      continue;
    }
    is_writing_ = true;
    sent = co_await send_piece(request, text);
    is_writing_ = false;
    if (!text.empty()) quiet_until = std::chrono::steady_clock::now() + shared_.options.comment_every;
    position_ = batch.position;
    shared_.counters.events_sent += batch.events;
    text.clear();
  }
  sends_events_ = false;
  --shared_.counters.event_clients;
  co_return false;
}

}  // namespace laggard::serve
