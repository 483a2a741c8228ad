// How a command ends.
#pragma once

#include <string>

#include "daemon/base/error.h"

namespace laggard::client {

/// The exit codes of `laggard`; they are part of its interface.
enum class ExitCode {
  fine = 0,
  condition = 1,  ///< the runs of a report do not match, --fail-on is exceeded, an import left something out
  usage = 2,
  unreachable = 3,  ///< no collector there, it does not answer as one, or it is not ready for an answer
  no_such_data = 4,
  failed = 5,   ///< anything else: a query took too long, the disk is full, a file cannot be read
  mismatch = 6  ///< the runs of a comparison did not do the same work
};

/// A command that cannot go on: a sentence for the person, a code for the script.
class Failure : public Error {
 public:
  Failure(ExitCode code, const std::string& sentence) : Error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// There is no answer at this moment, and there may be one later: whoever waits for it asks again.
class NoAnswer : public Failure {
 public:
  using Failure::Failure;
};

}  // namespace laggard::client
