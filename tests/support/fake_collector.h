// A collector for tests of the agent: it speaks the protocol and keeps what it was told in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace laggard::test {

/// How the collector behaves from now on.
struct Behaviour {
  bool welcome = true;          ///< answer Hello
  bool ack = true;              ///< acknowledge what was committed
  bool commit = true;           ///< take batches at all; otherwise they vanish, as in a full queue
  int reject_hello_again = 0;   ///< so many batches are answered with Reject{hello_again}
  std::string refuse;           ///< answer Hello with this final Reject
  std::uint32_t window = 1024;  ///< of Welcome and Ack
  std::string collector_id = "collector-1";
};

/// What one source delivered, in the order of its items.
struct ReceivedSource {
  std::string run, origin;
  std::uint32_t rank = 0;
  bool resumed = false, said_bye = false, finished = false;
  std::uint64_t committed_seq = 0;
  int hellos = 0;
  struct Item {
    char kind;  ///< 'u'pdate, 'c'onfig, 'e'nd
    std::uint32_t attempt;
    std::int64_t step;
    double wall_ms;
  };
  std::vector<Item> items;
};

/// What was wrong with what the agent said is in `faults`, which a test expects to be empty.
struct Received {
  std::map<std::string, ReceivedSource> sources;  ///< by source id
  std::uint64_t duplicates = 0, gaps = 0;         ///< items and batches
  std::vector<std::string> faults;

  std::size_t updates() const;
};

class FakeCollector {
 public:
  FakeCollector();
  ~FakeCollector();

  const std::string& endpoint() const;
  void behave(const Behaviour& behaviour);
  /// Closes the socket; sessions are forgotten, what was committed is not.
  void stop();
  /// Opens the socket again at the same endpoint. With `empty` everything committed is lost.
  void start(bool empty = false);
  /// Waits until the condition holds; false when it does not within 20 s.
  bool wait_for(const std::function<bool(const Received&)>& condition);
  Received received() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace laggard::test
