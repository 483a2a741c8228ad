// A collector that this program starts, because none is there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "client/http/url.h"

namespace laggard::client {

class OwnCollector {
 public:
  /// Starts laggardd with this data directory, which is made when it is missing, and returns when it answers
  /// at `http`. It has a session of its own, so that Ctrl-C does not end it before the job. Throws Failure:
  /// usage for an address of another machine, else unreachable with what laggardd said.
  /// Agents reach it at `ingest`; "": at the usual port, or at any when that one is taken.
  OwnCollector(std::filesystem::path data, const Endpoint& http, std::string ingest);
  /// Stops it.
  ~OwnCollector() { stop(); }
  OwnCollector(const OwnCollector&) = delete;
  OwnCollector& operator=(const OwnCollector&) = delete;

  const std::filesystem::path& data() const { return data_; }
  void stop();
  /// It is to go on after this program; its process number.
  pid_t leave();

 private:
  void await_ready(int output);

  const std::filesystem::path data_, log_;
  pid_t pid_ = 0;
};

/// liblaggard.so that belongs to this program: of its build or install tree; "" when there is none.
std::filesystem::path own_library();

}  // namespace laggard::client
