// Records a second through the whole product and through each part alone. The records have 14 stages on two
// clocks, 11 counts and 16 sample indices. LAGGARD_BENCH_DIR says where the database goes; $TMPDIR otherwise.
#include <benchmark/benchmark.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/collector_link.h"
#include "agent/line_parser.h"
#include "agent/rank_source.h"
#include "agent/session.h"
#include "daemon/app/daemon.h"
#include "daemon/core/collector.h"
#include "daemon/ingest/sessions.h"
#include "tests/bench/records.h"

namespace laggard {
namespace {

using bench::hello_of, bench::make_config, bench::make_line;

constexpr Step kStepsPerMessage = 64;
// Records on their way; about what one agent's limits::kWindowBytes hold.
constexpr std::uint64_t kWindow = 1 << 16;

std::filesystem::path bench_dir() {
  const char* asked = std::getenv("LAGGARD_BENCH_DIR");
  return (asked != nullptr ? std::filesystem::path(asked) : std::filesystem::temp_directory_path()) /
         "laggard-pipeline-bench";
}

/// `world` ranks that deliver over one connection, as one agent with many files would.
class Load {
 public:
  Load(const std::string& endpoint, Rank world) : link_(endpoint) {
    for (Rank rank = 0; rank < world; ++rank) {
      sources_.push_back(std::make_unique<agent::RankSource>(rank, hello_of(rank), agent::AttemptState{}));
      sessions_.push_back(std::make_unique<agent::Session>(*sources_.back(), nullptr));
      lines_.push_back(make_line(rank));
      sources_.back()->add_config(make_config(rank, world));
    }
  }

  void send_steps(Step from, Step count) {
    for (std::size_t rank = 0; rank < sources_.size(); ++rank) {
      for (Step step = from; step < from + count; ++step) {
        lines_[rank].step = step;
        if (sources_[rank]->add_update(lines_[rank]).has_value()) std::abort();
      }
      sources_[rank]->flush();
    }
    pump();
  }

  void finish() {
    while (uncommitted() > 0) {
      pump();
      link_.wait({}, std::chrono::milliseconds(10));
    }
  }

  /// Bounded like an agent's window: nothing is made while so much is on its way.
  void wait_for_window(std::uint64_t most) {
    while (uncommitted() > most) {
      pump();
      link_.wait({}, std::chrono::milliseconds(10));
    }
  }

 private:
  std::uint64_t uncommitted() const {
    std::uint64_t sum = 0;
    for (const auto& source : sources_) sum += source->uncommitted();
    return sum;
  }

  void pump() {
    while (link_.next_event()) {
    }
    const auto now = std::chrono::steady_clock::now();
    while (auto message = link_.receive())
      if (auto incoming = agent::decode(*message)) sessions_[incoming->channel]->on_message(*incoming, now);
    for (auto& session : sessions_)
      while (link_.is_ready()) {
        auto message = session->next_message(now);
        if (!message) break;
        link_.send(std::move(*message));
      }
  }

  agent::CollectorLink link_;
  std::vector<std::unique_ptr<agent::RankSource>> sources_;
  std::vector<std::unique_ptr<agent::Session>> sessions_;
  std::vector<agent::ParsedLine> lines_;
};

/// Delivery code of the agent, ZeroMQ, alignment, breakdown, commit, ack; load generator on the same cores.
void end_to_end(benchmark::State& state) {
  spdlog::set_level(spdlog::level::warn);
  const auto world = static_cast<Rank>(state.range(0));
  const Step steps = state.range(1);
  std::uint64_t records = 0;
  for (auto _ : state) {
    std::filesystem::remove_all(bench_dir());
    app::Config config;
    config.data = bench_dir().string();
    config.ingest = "tcp://127.0.0.1:0";
    config.http = "127.0.0.1:0";
    auto daemon = std::make_unique<app::Daemon>(config, [] { std::abort(); });
    const std::string ready = daemon->ready_line();
    const std::size_t at = ready.find("tcp://");
    Load load(ready.substr(at, ready.find(' ', at) - at), world);
    const auto started = std::chrono::steady_clock::now();
    for (Step step = 1; step <= steps; step += kStepsPerMessage) {
      load.send_steps(step, kStepsPerMessage);
      load.wait_for_window(std::max(kWindow, std::uint64_t{world} * 512));
    }
    load.finish();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
    records += std::uint64_t{world} * static_cast<std::uint64_t>(steps);
  }
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate);
}
BENCHMARK(end_to_end)
    ->ArgNames({"ranks", "steps"})
    ->Args({64, 16'384})
    ->Args({1024, 1024})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// Packing and encoding alone: what a rank's records cost its agent behind the parser.
void pack_and_encode(benchmark::State& state) {
  agent::ParsedLine line = make_line(0);
  std::uint64_t records = 0;
  agent::RankSource source(0, hello_of(0), agent::AttemptState{});
  (void)source.hello();
  (void)source.on_welcome({.window_records = 1U << 16});
  for (auto _ : state) {
    for (Step i = 0; i < kStepsPerMessage; ++i) {
      ++line.step;
      if (source.add_update(line).has_value()) state.SkipWithError("refused");
    }
    source.flush();
    benchmark::DoNotOptimize(source.next_batch());
    source.on_ack({.committed_seq = source.last_seq(), .credit = 1U << 16});
    records += kStepsPerMessage;
  }
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate);
}
BENCHMARK(pack_and_encode);

/// Reading messages alone: protobuf, every check, the columns.
void receive(benchmark::State& state) {
  ingest::Sessions sessions("bench");
  std::vector<ingest::Outgoing> out;
  agent::RankSource source(0, hello_of(0), agent::AttemptState{});
  auto greeting = sessions.receive("peer", source.hello(), 0, out);
  sessions.answer(ingest::WelcomeReply{std::get<ingest::HelloMessage>(*greeting).session, {.source = 1}});
  (void)source.on_welcome({.window_records = 1U << 16});
  agent::ParsedLine line = make_line(0);
  for (Step i = 0; i < kStepsPerMessage; ++i) {
    ++line.step;
    if (source.add_update(line).has_value()) state.SkipWithError("refused");
  }
  source.flush();
  const std::string message = *source.next_batch();
  std::uint64_t records = 0;
  for (auto _ : state) {
    auto items = sessions.receive("peer", message, 0, out);
    if (!items) state.SkipWithError("malformed");
    benchmark::DoNotOptimize(items);
    records += kStepsPerMessage;
  }
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate);
}
BENCHMARK(receive);

class NoArchive : public core::StepArchive {
 public:
  std::optional<core::StoredStep> load(core::AttemptId, Step) override { return std::nullopt; }
};

/// Alignment, breakdown and the rows to store, without storing them.
void align_and_break_down(benchmark::State& state) {
  const auto world = static_cast<Rank>(state.range(0));
  NoArchive archive;
  core::Collector collector(core::Options{}, core::Restored{}, archive, 0);
  std::vector<core::SourceKey> sources;
  std::vector<agent::ParsedLine> lines;
  for (Rank rank = 0; rank < world; ++rank) {
    lines.push_back(make_line(rank));
    const auto welcomed = collector.hello(
        {.run = "bench", .rank = rank, .source_id = std::to_string(rank), .origin = std::to_string(rank)},
        {lines.back().layout}, 0);
    sources.push_back(std::get<core::Welcomed>(welcomed).source);
    collector.apply(sources.back(),
                    {.first_seq = 1, .attempt = 1, .what = core::ConfigItem{world, R"({"world_size":1})"}},
                    0);
  }
  std::uint64_t next_seq = 2, records = 0;
  Step step = 0;
  for (auto _ : state) {
    for (Rank rank = 0; rank < world; ++rank) {
      PackedRecords packed;
      for (Step i = 1; i <= kStepsPerMessage; ++i) {
        lines[rank].step = step + i;
        packed.append(lines[rank].view(), 0);
      }
      collector.apply(sources[rank], {.first_seq = next_seq, .attempt = 1, .what = std::move(packed)}, 1);
    }
    step += kStepsPerMessage;
    next_seq += kStepsPerMessage;
    benchmark::DoNotOptimize(collector.collect(1, 0));
    benchmark::DoNotOptimize(collector.committed());
    records += std::uint64_t{world} * kStepsPerMessage;
  }
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate);
}
BENCHMARK(align_and_break_down)->ArgName("ranks")->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

/// Lines of a real file to records.
void parse_lines(benchmark::State& state) {
  std::vector<std::string> lines;
  std::ifstream file(LAGGARD_TEST_DATA "/published_runs/run2_bs8/rank1.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  agent::LineParser parser;
  std::uint64_t read = 0;
  for (auto _ : state)
    for (const std::string& line : lines) {
      parser.start(line);
      while (parser.next() != nullptr) ++read;
    }
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(read), benchmark::Counter::kIsRate);
}
BENCHMARK(parse_lines);

}  // namespace
}  // namespace laggard

int main(int argc, char** argv) {
  laggard::app::keep_freed_memory();  // as the daemon does
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
