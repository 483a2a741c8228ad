#include "agent/api/resources.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <latch>
#include <string>

namespace laggard::agent {
namespace {

// Of its own: the spool, what wakes the delivery, and the connection. Of libzmq: one for each of two threads
// and three sockets, two to poll with, and one for its end. The rest is for the lookup of a name.
constexpr std::size_t kDescriptors = 16;
constexpr std::size_t kThreads = 3;  // two of libzmq, and the delivery

[[noreturn]] void lack(const char* what, std::size_t needed, std::size_t there, int reason) {
  throw Shortage("the process lacks " + std::string(what) + ": it needs " + std::to_string(needed) +
                 " more and got " + std::to_string(there) + " (" + std::strerror(reason) + ")");
}

void require_descriptors() {
  std::array<int, kDescriptors> taken{};
  std::size_t count = 0;
  while (count < taken.size() && (taken[count] = ::eventfd(0, EFD_CLOEXEC)) >= 0) ++count;
  const int reason = errno;
  for (std::size_t i = 0; i < count; ++i) ::close(taken[i]);
  if (count < taken.size()) lack("file descriptors", taken.size(), count, reason);
}

void* wait_for(void* latch) {
  static_cast<std::latch*>(latch)->wait();
  return nullptr;
}

// At the same time, as they will have to be.
void require_threads() {
  const SignalsBlocked blocked;
  std::array<pthread_t, kThreads> begun{};
  std::latch all_begun{1};
  std::size_t count = 0;
  int reason = 0;
  while (count < begun.size() && reason == 0) {
    reason = pthread_create(&begun[count], nullptr, wait_for, &all_begun);
    if (reason == 0) ++count;
  }
  all_begun.count_down();
  for (std::size_t i = 0; i < count; ++i) pthread_join(begun[i], nullptr);
  if (count < begun.size()) lack("threads", begun.size(), count, reason);
}

}  // namespace

void require_resources() {
  require_descriptors();
  require_threads();
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace laggard::agent
