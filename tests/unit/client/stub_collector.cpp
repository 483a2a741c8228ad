#include "tests/unit/client/stub_collector.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <mutex>
#include <thread>

namespace laggard::client {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

struct StubCollector::Impl {
  explicit Impl(std::map<std::string, Answer> given) : answers(std::move(given)) {
    thread = std::thread([this] { serve(); });
  }

  void serve() {
    while (true) {
      beast::error_code error;
      tcp::socket socket = acceptor.accept(error);
      if (error) return;
      {
        const std::lock_guard lock(mutex);
        if (stopping) return;
      }
      answer_one(socket);
    }
  }

  void answer_one(tcp::socket& socket) {
    beast::flat_buffer buffer;
    http::request<http::string_body> request;
    beast::error_code error;
    http::read(socket, buffer, request, error);
    if (error) return;
    if (!request.body().empty()) {
      const std::lock_guard lock(mutex);
      bodies.push_back(request.body());
    }
    const auto found =
        answers.find(std::string(request.method_string()) + " " + std::string(request.target()));
    Answer answer{404, R"({"error": {"code": "no_such_run", "message": "there is no such thing here"}})"};
    if (found != answers.end()) {
      answer = found->second;
      if (auto& before = found->second.before; !before.empty()) {
        answer = before.front();
        before.erase(before.begin());
      }
    }
    http::response<http::string_body> response(static_cast<http::status>(answer.status), 11);
    response.body() = answer.body;
    response.content_length(answer.body.size() + (answer.cut_off ? 1 : 0));
    http::write(socket, response, error);
    socket.shutdown(tcp::socket::shutdown_both, error);
  }

  std::map<std::string, Answer> answers;
  mutable std::mutex mutex;
  bool stopping = false;
  std::vector<std::string> bodies;
  asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)};
  std::thread thread;
};

StubCollector::StubCollector(std::map<std::string, Answer> answers)
    : impl_(std::make_unique<Impl>(std::move(answers))) {}

StubCollector::~StubCollector() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  // A last connection wakes the thread out of accept().
  beast::error_code error;
  asio::io_context io;
  tcp::socket(io).connect(impl_->acceptor.local_endpoint(), error);
  impl_->thread.join();
}

std::string StubCollector::address() const {
  return "http://127.0.0.1:" + std::to_string(impl_->acceptor.local_endpoint().port());
}

std::vector<std::string> StubCollector::bodies() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->bodies;
}

Outcome run_command(std::vector<std::string> arguments, const Terminal& terminal) {
  Outcome outcome;
  const Console console{.out = [&](std::string_view text) { outcome.out += text; },
                        .err = [&](std::string_view text) { outcome.err += text; },
                        .terminal = [&] { return terminal; }};
  outcome.code = run(std::move(arguments), console);
  return outcome;
}

Outcome ask(const StubCollector& collector, std::vector<std::string> arguments, const Terminal& terminal) {
  arguments.insert(arguments.begin(), {"--collector", collector.address()});
  return run_command(std::move(arguments), terminal);
}

}  // namespace laggard::client
