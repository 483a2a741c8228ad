// The collector as the commands see it: JSON in, JSON out, sentences when something is wrong.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "client/http/event_stream.h"
#include "client/http/http_client.h"

namespace laggard::client {

/// The JSON of a text from a socket; discarded (is_discarded()) when it is none. What is nested deeper than
/// any answer is left out: writing it out again would exhaust the stack.
nlohmann::ordered_json parse_json(std::string_view text);

/// All functions throw Failure with the collector's own sentence where it gave one, and with a command that
/// helps: usage when the request was refused, else NoAnswer (unreachable, no_such_data, failed).
class Collector {
 public:
  explicit Collector(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

  nlohmann::ordered_json get(const std::string& target, std::chrono::seconds timeout = kAnswerTimeout) const;
  nlohmann::ordered_json remove(const std::string& target) const;
  nlohmann::ordered_json post(const std::string& target, const nlohmann::ordered_json& body) const;
  /// The body as it comes, piece by piece.
  void stream(const std::string& target, const Sink& sink) const;
  std::unique_ptr<EventStream> events(const std::string& target) const {
    return std::make_unique<EventStream>(endpoint_, target,
                                         [this](const HttpAnswer& answer) { check(answer); });
  }
  const std::string& address() const { return endpoint_.text; }

 private:
  nlohmann::ordered_json ask(const HttpRequest& request, std::chrono::seconds timeout) const;
  void check(const HttpAnswer& answer) const;

  Endpoint endpoint_;
};

}  // namespace laggard::client
