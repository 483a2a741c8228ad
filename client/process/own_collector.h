// A collector that this program starts, because none is there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "client/http/url.h"

namespace laggard::client {

class OwnCollector {
 public:
  /// Whether one could be started that answers there: on this machine, without TLS, where nobody listens yet.
  static bool could_answer_at(const Endpoint& http);

  /// Starts laggardd with this data directory, which is made when it is missing, and returns when it answers
  /// at `http`. It has a session of its own, so that Ctrl-C does not end it before the job. Throws Failure,
  /// with what laggardd said. Agents reach it at `ingest`; "": at the usual port, or at any when that one is
  /// taken.
  OwnCollector(std::filesystem::path data, const Endpoint& http, std::string ingest);
  /// Stops it.
  ~OwnCollector() { stop(); }
  OwnCollector(const OwnCollector&) = delete;
  OwnCollector& operator=(const OwnCollector&) = delete;

  const std::filesystem::path& data() const { return data_; }
  /// Has it end, and waits for that, but not for ever: the process that is still there, else 0.
  pid_t stop();
  /// It is to go on after this program; its process number.
  pid_t leave();

 private:
  void await_ready(int output);
  void give_up();

  const std::filesystem::path data_, log_;
  pid_t pid_ = 0;
};

/// liblaggard.so that belongs to this program: of its build or install tree; "" when there is none.
std::filesystem::path own_library();

}  // namespace laggard::client
