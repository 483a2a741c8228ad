// The libraries' own calls in bare loops, over records of the same size as the other benchmarks': what is
// left when everything laggard does is taken away. LAGGARD_BENCH_DIR says where the database goes; $TMPDIR
// otherwise.
#include <benchmark/benchmark.h>
#include <simdjson.h>
#include <sqlite3.h>
#include <zmq.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/value.h"
#include "proto/wire.pb.h"

namespace laggard {
namespace {

constexpr int kDoubles = 29, kInts = 25, kSamples = 16, kRecords = 64;

wire::PackedRecords make_records() {
  wire::PackedRecords records;
  for (int i = 0; i < kRecords; ++i) {
    records.add_ranks(static_cast<std::uint32_t>(i));
    records.add_layouts(0);
    records.add_sample_counts(kSamples);
    for (int k = 0; k < kDoubles; ++k) records.add_doubles(14'000.123 / (i * 17.0 + k + 1));
    for (int k = 0; k < kInts; ++k) records.add_ints(k * 37 + i);
    for (int k = 0; k < kSamples; ++k) records.add_sample_indices(100'000 * i + k);
  }
  return records;
}

void count_records(benchmark::State& state, std::int64_t records) {
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate);
}

/// DEALER to ROUTER over loopback TCP, 64 records a message, each message acknowledged, at most 64 on their
/// way.
void zeromq(benchmark::State& state) {
  const std::string bytes = make_records().SerializeAsString();
  void* context = zmq_ctx_new();
  void* router = zmq_socket(context, ZMQ_ROUTER);
  zmq_bind(router, "tcp://127.0.0.1:*");
  std::string address(256, '\0');
  std::size_t size = address.size();
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, address.data(), &size);
  std::thread receiver([router] {
    std::string peer(64, '\0'), message(1 << 16, '\0');
    for (;;) {
      const int peer_size = zmq_recv(router, peer.data(), peer.size(), 0);
      if (zmq_recv(router, message.data(), message.size(), 0) == 0) return;
      zmq_send(router, peer.data(), static_cast<std::size_t>(peer_size), ZMQ_SNDMORE);
      zmq_send(router, "ack", 3, 0);
    }
  });
  void* dealer = zmq_socket(context, ZMQ_DEALER);
  zmq_connect(dealer, address.c_str());
  constexpr int kWindow = 64;
  std::string ack(16, '\0');
  std::int64_t sent = 0, acked = 0;
  for (auto _ : state) {
    zmq_send(dealer, bytes.data(), bytes.size(), 0);
    ++sent;
    while (sent - acked >= kWindow)
      if (zmq_recv(dealer, ack.data(), ack.size(), 0) >= 0) ++acked;
  }
  for (; acked < sent; ++acked) zmq_recv(dealer, ack.data(), ack.size(), 0);
  zmq_send(dealer, "", 0, 0);
  receiver.join();
  zmq_close(dealer);
  zmq_close(router);
  zmq_ctx_term(context);
  count_records(state, sent * kRecords);
}
BENCHMARK(zeromq)->UseRealTime();

/// Packed arrays into a message that is used again.
void protobuf_decode(benchmark::State& state) {
  const std::string bytes = make_records().SerializeAsString();
  wire::PackedRecords records;
  for (auto _ : state) benchmark::DoNotOptimize(records.ParseFromString(bytes));
  count_records(state, state.iterations() * kRecords);
}
BENCHMARK(protobuf_decode);

/// The same the other way.
void protobuf_encode(benchmark::State& state) {
  const wire::PackedRecords records = make_records();
  std::string bytes;
  for (auto _ : state) benchmark::DoNotOptimize(records.SerializeToString(&bytes));
  count_records(state, state.iterations() * kRecords);
}
BENCHMARK(protobuf_encode);

/// Minimum, maximum and sum of each time of each record.
void accumulate(benchmark::State& state) {
  const wire::PackedRecords records = make_records();
  std::vector<double> min(kDoubles, 1e300), max(kDoubles), sum(kDoubles);
  for (auto _ : state) {
    for (int i = 0; i < kRecords; ++i)
      for (int k = 0; k < kDoubles; ++k) {
        const double value = records.doubles(i * kDoubles + k);
        const auto at = static_cast<std::size_t>(k);
        if (!is_valid(value)) continue;
        min[at] = std::min(min[at], value);
        max[at] = std::max(max[at], value);
        sum[at] += value;
      }
    benchmark::ClobberMemory();
  }
  count_records(state, state.iterations() * kRecords);
}
BENCHMARK(accumulate);

/// One row with a packed block for each step of 64 ranks, 128 steps a transaction; WAL, synchronous=FULL.
void sqlite(benchmark::State& state) {
  const char* asked = std::getenv("LAGGARD_BENCH_DIR");
  const std::filesystem::path file =
      (asked != nullptr ? std::filesystem::path(asked) : std::filesystem::temp_directory_path()) /
      "laggard-bare-bench.db";
  const auto remove_all = [&] {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
  };
  remove_all();
  const std::string bytes = make_records().SerializeAsString();
  sqlite3* database = nullptr;
  sqlite3_open(file.c_str(), &database);
  const auto execute = [&](const char* sql) {
    if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
      state.SkipWithError(sqlite3_errmsg(database));
  };
  execute("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;");
  execute("PRAGMA wal_autocheckpoint = 4096; PRAGMA cache_size = -65536; PRAGMA secure_delete = OFF;");
  execute("CREATE TABLE steps (step INTEGER PRIMARY KEY, records BLOB)");
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(database, "INSERT INTO steps VALUES (?, ?)", -1, &insert, nullptr);
  constexpr int kSteps = 128;
  std::int64_t step = 0;
  for (auto _ : state) {
    execute("BEGIN");
    for (int i = 0; i < kSteps; ++i) {
      sqlite3_bind_int64(insert, 1, ++step);
      sqlite3_bind_blob(insert, 2, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
      sqlite3_step(insert);
      sqlite3_reset(insert);
    }
    execute("COMMIT");
  }
  sqlite3_finalize(insert);
  sqlite3_close(database);
  remove_all();
  count_records(state, step * kRecords);
}
BENCHMARK(sqlite)->UseRealTime()->MinTime(2);

/// Lines of a real file, every number in them read.
void simdjson_lines(benchmark::State& state) {
  std::vector<simdjson::padded_string> lines;
  std::ifstream file(LAGGARD_TEST_DATA "/published_runs/run2_bs8/rank1.jsonl");
  for (std::string line; std::getline(file, line);) lines.emplace_back(line);
  simdjson::ondemand::parser parser;
  double sum = 0;
  for (auto _ : state)
    for (const simdjson::padded_string& line : lines) {
      auto document = parser.iterate(line);
      for (auto field : document.get_object()) {
        simdjson::ondemand::value value = field.value();
        if (value.type() == simdjson::ondemand::json_type::number) sum += value.get_double();
        if (value.type() != simdjson::ondemand::json_type::object) continue;
        for (auto inner : value.get_object()) {
          simdjson::ondemand::value number = inner.value();
          if (number.type() == simdjson::ondemand::json_type::number) sum += number.get_double();
        }
      }
    }
  benchmark::DoNotOptimize(sum);
  count_records(state, state.iterations() * static_cast<std::int64_t>(lines.size()));
}
BENCHMARK(simdjson_lines);

}  // namespace
}  // namespace laggard

BENCHMARK_MAIN();
