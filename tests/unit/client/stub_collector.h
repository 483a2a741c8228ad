// A collector that answers what the test says, and a console that keeps what was written.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/app.h"

namespace laggard::client {

/// Serves on a port of its own until it goes. Anything but the given requests is a 404 with a sentence.
class StubCollector {
 public:
  struct Answer {
    unsigned status = 200;
    std::string body;
    bool cut_off = false;             ///< the connection ends in the middle of the body
    std::vector<Answer> before = {};  ///< what the first requests get, one each
  };
  /// Answers by "METHOD TARGET".
  explicit StubCollector(std::map<std::string, Answer> answers);
  ~StubCollector();

  std::string address() const;
  /// The bodies of all requests so far that had one.
  std::vector<std::string> bodies() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct Outcome {
  ExitCode code = ExitCode::fine;
  std::string out, err;
};

/// Runs a command line in this process; `terminal` is what its output claims to be.
Outcome run_command(std::vector<std::string> arguments, const Terminal& terminal = {});
/// The same of this collector.
Outcome ask(const StubCollector& collector, std::vector<std::string> arguments,
            const Terminal& terminal = {});

}  // namespace laggard::client
