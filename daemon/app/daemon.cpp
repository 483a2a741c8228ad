#include "daemon/app/daemon.h"

#include <malloc.h>

#include <chrono>

#include "daemon/app/descriptors.h"
#include "daemon/app/engine.h"
#include "daemon/app/ingest_security.h"
#include "daemon/app/stored_history.h"
#include "daemon/base/limits.h"
#include "daemon/base/secret_file.h"
#include "daemon/ingest/server.h"
#include "daemon/serve/http_server.h"
#include "daemon/serve/query_service.h"
#include "daemon/store/archive.h"
#include "daemon/store/store.h"

namespace laggard::app {
namespace {

constexpr std::chrono::milliseconds kQueryLimit{limits::kQueryMs};
constexpr int kKeptFreeBytes = 64 << 20;
constexpr int kOwnMappingBytes = 32 << 20;  // what is larger than that goes back at once all the same

store::StoreOptions store_options(const Retention& keep) {
  constexpr std::int64_t kDayMs = 86'400'000;
  return {.retention = {.records_ms = keep.records_days * kDayMs,
                        .summaries_ms = keep.summaries_days * kDayMs,
                        .max_bytes = static_cast<std::uint64_t>(keep.max_database_mb) << 20}};
}

// The system's time at start and a monotonic clock from there: a clock that is set must not stop commits or
// make every agent look gone.
core::UnixMs unix_now() {
  using std::chrono::milliseconds;
  static const auto kWall = std::chrono::system_clock::now().time_since_epoch();
  static const auto kStart = std::chrono::steady_clock::now();
  return std::chrono::duration_cast<milliseconds>(kWall + (std::chrono::steady_clock::now() - kStart))
      .count();
}

std::string token_file_of(const Config& config) {
  return config.http_token_file.empty()
             ? (std::filesystem::absolute(config.data) / "admin.token").lexically_normal().string()
             : config.http_token_file;
}

/// Needs the lock of the data directory. A token that the operator names is theirs to make.
serve::HttpOptions http_options(const Config& config, std::size_t connections) {
  const std::string token_file = token_file_of(config);
  if (config.http_token_file.empty()) make_token_file(token_file);
  return {.listen = config.http,
          .token = read_token_file(token_file),
          .token_file = token_file,
          .tls_certificate_file = config.http_tls_cert,
          .tls_key_file = config.http_tls_key,
          .connections = connections};
}

}  // namespace

void keep_freed_memory() {
  mallopt(M_TRIM_THRESHOLD, kKeptFreeBytes);
  mallopt(M_MMAP_THRESHOLD, kOwnMappingBytes);
}

// Members are destroyed from the last to the first; ~Daemon stops the threads before that.
struct Daemon::Parts {
  explicit Parts(const Config& config)
      : data(config.data),
        security(ingest_security(config)),
        store(config.data, store_options(config.retention)),
        restored(store.restore()),
        archive(store.database_path()),
        collector_id(restored.collector_id),
        queue(limits::kEngineQueueBatches),
        connections(share_descriptors(raise_descriptor_limit())),
        ingest(config.ingest, collector_id, queue, unix_now, connections.agents, security),
        engine(config.alignment, std::move(restored), store, archive, queue, unix_now),
        service(facts()),
        scheme(config.http_tls_cert.empty() ? "http://" : "https://"),
        http(http_options(config, connections.http), service,
             [this] { return open_history(store.database_path(), kQueryLimit); }) {}

  serve::Collector facts() {
    return {.version = LAGGARD_VERSION,
            .collector_id = collector_id,
            .ingest = ingest.address(),
            .started = unix_now(),
            .now = unix_now,
            .snapshot = [this] { return engine.snapshot(); },
            .storage =
                [this] {
                  const store::Store::Sizes sizes = store.sizes();
                  return serve::StorageFacts{store.database_path().string(), sizes.database_bytes,
                                             sizes.wal_bytes, sizes.free_bytes};
                },
            .close = [this](const std::string& run) { engine.close_run(run); },
            .remove = [this](const std::string& run) { engine.delete_run(run); }};
  }

  std::string data;
  std::optional<ingest::Security> security;
  store::Store store;
  core::Restored restored;
  store::Archive archive;
  std::string collector_id;
  ingest::Server::Queue queue;
  ConnectionShares connections;
  ingest::Server ingest;
  Engine engine;
  serve::QueryService service;
  std::string scheme;
  serve::HttpServer http;
};

Daemon::Daemon(const Config& config, std::function<void()> failed, std::function<void()> turned)
    : parts_(std::make_unique<Parts>(config)) {
  Parts& parts = *parts_;
  parts.http.start();
  parts.engine.start({.reply = [&parts](auto replies) { parts.ingest.reply(std::move(replies)); },
                      .drained = [&parts] { parts.ingest.queue_drained(); },
                      .ingest_counts = [&parts] { return parts.ingest.counts(); },
                      .connection_counts = [&parts] { return parts.ingest.connection_counts(); },
                      .published = [&parts] { parts.http.notify(); },
                      .failed = std::move(failed),
                      .turned = std::move(turned)});
  parts.ingest.start();
}

Daemon::~Daemon() {
  parts_->ingest.stop_reading();  // nothing new comes in ...
  parts_->engine.stop();          // ... what came in is committed and its acks are handed out ...
  parts_->ingest.stop();          // ... and sent
  parts_->http.stop();
}

std::string Daemon::ready_line() const {
  return "laggardd ready: ingest " + parts_->ingest.address() + " http " + parts_->scheme +
         parts_->http.address() + " data " + parts_->data;
}

}  // namespace laggard::app
