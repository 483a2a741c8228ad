// A job of many ranks as a collector sees it: so many ranks over so many connections, one record of each rank
// in every step, steps at a steady pace. Prints one JSON object at its end. tests/bench/scale.py runs it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "agent/rank_source.h"
#include "agent/session.h"
#include "tests/bench/records.h"

namespace laggard::bench {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct RankFeed {
  RankFeed(std::uint32_t channel, Rank rank, Rank world)
      : source(channel, hello_of(rank), agent::AttemptState{}),
        session(source, nullptr),
        line(make_line(rank)) {
    source.add_config(make_config(rank, world));
    source.flush();
  }
  agent::RankSource source;
  agent::Session session;
  agent::ParsedLine line;
  std::deque<std::pair<std::uint64_t, Clock::time_point>> waiting;  // sequence number, when it was made
};

/// One DEALER socket with its ranks.
class Connection {
 public:
  Connection(zmq::context_t& context, const std::string& endpoint, Rank first, Rank count, Rank world)
      : socket_(context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    socket_.connect(endpoint);
    for (Rank i = 0; i < count; ++i) ranks_.push_back(std::make_unique<RankFeed>(i, first + i, world));
  }

  void make_step(Step step, Clock::time_point now) {
    for (auto& rank : ranks_) {
      rank->line.step = step;
      if (rank->source.add_update(rank->line).has_value()) std::abort();
      rank->source.flush();
      rank->waiting.emplace_back(rank->source.last_seq(), now);
    }
  }

  void pump(std::vector<double>* lags_ms) {
    const Clock::time_point now = Clock::now();
    zmq::message_t message;
    while (socket_.recv(message, zmq::recv_flags::dontwait)) {
      const auto incoming = agent::decode(message.to_string());
      if (!incoming || incoming->channel >= ranks_.size()) continue;
      RankFeed& rank = *ranks_[incoming->channel];
      rank.session.on_message(*incoming, now);
      while (!rank.waiting.empty() && rank.waiting.front().first <= rank.source.committed_seq()) {
        lags_ms->push_back(
            std::chrono::duration<double, std::milli>(now - rank.waiting.front().second).count());
        rank.waiting.pop_front();
      }
    }
    for (auto& rank : ranks_)
      while (auto out = rank->session.next_message(now))
        socket_.send(zmq::buffer(*out), zmq::send_flags::dontwait);
  }

  bool is_open() const {
    return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->session.is_open(); });
  }
  std::uint64_t uncommitted() const {
    std::uint64_t sum = 0;
    for (const auto& rank : ranks_) sum += rank->source.uncommitted();
    return sum;
  }

 private:
  zmq::socket_t socket_;
  std::vector<std::unique_ptr<RankFeed>> ranks_;
};

double percentile(std::vector<double>& values, double p) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

int run(const std::string& endpoint, Rank ranks, Rank connections, int seconds) {
  zmq::context_t context(1);
  context.set(zmq::ctxopt::max_sockets, static_cast<int>(connections) + 16);
  std::vector<std::unique_ptr<Connection>> all;
  for (Rank i = 0; i < connections; ++i) {
    const Rank first = i * ranks / connections, end = (i + 1) * ranks / connections;
    all.push_back(std::make_unique<Connection>(context, endpoint, first, end - first, ranks));
  }
  std::vector<double> lags_ms;
  const auto pump = [&] {
    for (auto& connection : all) connection->pump(&lags_ms);
    std::this_thread::sleep_for(2ms);
  };
  while (!std::ranges::all_of(all, [](const auto& c) { return c->is_open() && c->uncommitted() == 0; }))
    pump();
  std::fputs("open\n", stdout);
  std::fflush(stdout);
  const Clock::time_point started = Clock::now();
  for (Step step = 1; step <= seconds; ++step) {
    for (auto& connection : all) connection->make_step(step, Clock::now());
    while (Clock::now() < started + step * 1s) pump();
  }
  const auto left = [&] {
    std::uint64_t sum = 0;
    for (auto& connection : all) sum += connection->uncommitted();
    return sum;
  };
  for (const Clock::time_point limit = Clock::now() + 60s; left() > 0 && Clock::now() < limit;) pump();
  std::printf(
      R"({"records": %zu, "unacknowledged": %llu, "ack_ms_median": %.1f, "ack_ms_p99": %.1f, "ack_ms_max": %.1f})"
      "\n",
      lags_ms.size(), static_cast<unsigned long long>(left()), percentile(lags_ms, 0.5),
      percentile(lags_ms, 0.99), percentile(lags_ms, 1));
  return left() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace laggard::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: scale_load ENDPOINT RANKS CONNECTIONS SECONDS\n", stderr);
    return 2;
  }
  return laggard::bench::run(argv[1], static_cast<laggard::Rank>(std::atoi(argv[2])),
                             static_cast<laggard::Rank>(std::atoi(argv[3])), std::atoi(argv[4]));
}
