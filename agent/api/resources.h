// What the machine has to have left before the library may begin.
#pragma once

#include <csignal>
#include <stdexcept>

namespace laggard::agent {

/// The process or its machine lacks something, in a sentence: other arguments would not help.
class Shortage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Shortage unless there are file descriptors and threads for what is about to be begun. libzmq takes
/// both for granted, and ends the process when there are none.
void require_resources();

/// While it lives no signal is handled on this thread, nor ever on a thread begun meanwhile: a handler
/// belongs to the job, and runs on a thread of the job.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace laggard::agent
