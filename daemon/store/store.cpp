#include "daemon/store/store.h"

#include <sys/random.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/error.h"
#include "daemon/store/block_reader.h"
#include "daemon/store/rows.h"
#include "daemon/store/schema.h"

namespace laggard::store {
namespace {

// Measured with tests/bench/store_bench.cpp. Pages of 4 to 64 KiB take the same CPU to write. A report over
// larger ones is read faster (16 KiB: two thirds of the time of 4 KiB), but a commit writes every page it
// touches whole, and a job of few ranks commits a few rows a second into eight trees.
constexpr std::int64_t kPageBytes = 16384;
// Holds the pages of a group commit, so that none is written to the WAL twice.
constexpr std::int64_t kCacheKiB = 64 << 10;

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Error("the system gives no random numbers");
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

void configure(Database& database, std::int64_t wal_bytes) {
  // The page size counts only while the file is empty, and must come before WAL.
  database.execute("PRAGMA page_size = " + std::to_string(kPageBytes));
  database.execute("PRAGMA journal_mode = WAL");
  database.execute("PRAGMA synchronous = FULL");
  database.execute("PRAGMA cache_size = -" + std::to_string(kCacheKiB));
  // Debian's SQLite overwrites what it deletes with zeros; nothing here is secret from the file's owner.
  database.execute("PRAGMA secure_delete = OFF");
  const std::int64_t page_bytes = database.integer("PRAGMA page_size");
  database.execute("PRAGMA wal_autocheckpoint = " + std::to_string(wal_bytes / page_bytes));
  database.execute("PRAGMA journal_size_limit = " + std::to_string(wal_bytes));
}

std::unique_ptr<Database> open_database(const DataDir& dir, std::int64_t wal_bytes) {
  dir.create_database_file();
  const std::string path = dir.database().string();
  // Looked at before anything may write to it: a newer schema or a foreign file stays as it is.
  {
    Database looked_at(path, Database::Mode::read_only);
    check_schema(looked_at, migrations());
  }
  auto database = std::make_unique<Database>(path, Database::Mode::read_write);
  configure(*database, wal_bytes);
  migrate(*database, migrations());
  Statement(*database, "INSERT OR IGNORE INTO meta (key, value) VALUES ('collector_id', ?)").run(random_id());
  return database;
}

template <typename T>
std::vector<T> read_all(Database& database, const std::string& sql, T (*read)(Rows&)) {
  std::vector<T> all;
  Statement statement(database, sql);
  Rows rows = statement.query();
  while (rows.next()) all.push_back(read(rows));
  return all;
}

std::vector<std::pair<core::AttemptId, std::vector<core::Stage>>> read_stages(Database& database) {
  std::vector<std::pair<core::AttemptId, std::vector<core::Stage>>> all;
  // Those of a deleted run stay as long as it has steps.
  Statement statement(database, kStages.select("WHERE attempt_id IN (SELECT attempt_id FROM attempts) "
                                               "ORDER BY attempt_id, stage_id"));
  Rows rows = statement.query();
  while (rows.next()) {
    const core::AttemptId attempt = rows.integer();
    if (all.empty() || all.back().first != attempt) all.emplace_back(attempt, std::vector<core::Stage>());
    std::vector<core::Stage>& stages = all.back().second;
    stages.push_back(read_stage(rows, static_cast<core::StageId>(stages.size())));
  }
  return all;
}

}  // namespace

Store::Store(std::filesystem::path dir, const StoreOptions& options)
    : options_(options),
      dir_(std::move(dir), options.file_system),
      database_(open_database(dir_, options.wal_bytes)),
      writer_(*database_),
      retention_(*database_, options.retention) {}

core::Restored Store::restore() {
  Database& database = *database_;
  core::Restored restored;
  {
    Statement statement(database, "SELECT value FROM meta WHERE key = 'collector_id'");
    Rows rows = statement.query();
    if (rows.next()) restored.collector_id = rows.text();
  }
  restored.runs = read_all(database, kRuns.select("ORDER BY run_id"), read_run);
  restored.attempts = read_all(database, kAttempts.select("ORDER BY attempt_id"), read_attempt);
  restored.last_deleted_attempt = database.integer("SELECT max(attempt_id) FROM deletions");
  restored.ranks = read_all(database, select_ranks(""), read_rank);
  restored.stages = read_stages(database);
  BlockReader blocks(database);
  const LayoutTable& layouts = blocks.layouts();
  for (LayoutId id = 0; id < layouts.size(); ++id) restored.layouts.push_back(layouts[id]);
  restored.sources = read_all(database, kSources.select("ORDER BY source_key"), read_source);
  restore_steps(&restored);
  return restored;
}

void Store::restore_steps(core::Restored* restored) {
  Statement points(*database_,
                   "SELECT " + std::string(kPointColumns) +
                       " FROM steps WHERE attempt_id = ?1 AND (state = 'open' OR step IN "
                       "(SELECT step FROM steps WHERE attempt_id = ?1 ORDER BY step DESC LIMIT ?2)) "
                       "ORDER BY step");
  for (const core::AttemptRow& attempt : restored->attempts) {
    Rows rows = points.query(attempt.id, core::kHistoryPoints);
    while (rows.next()) restored->steps.emplace_back(attempt.id, read_point(rows));
    restored->steps_by_state.emplace_back(attempt.id, count_by_state(*database_, attempt.id));
  }
}

void Store::commit(const core::Writes& writes) {
  const auto grown = [&] { return sizes().wal_bytes > static_cast<std::uintmax_t>(options_.max_wal_bytes); };
  if (grown()) cut_wal();
  if (grown())
    throw Error(dir_.database().string() + "-wal has grown to " + std::to_string(sizes().wal_bytes >> 20) +
                " MiB, since a read transaction of the database has been open all the time; end the program "
                "that holds it");
  writer_.commit(writes);
}

Upkeep Store::upkeep(core::UnixMs now) {
  if (sizes().wal_bytes > static_cast<std::uintmax_t>(2 * options_.wal_bytes)) cut_wal();
  return retention_.next(now);
}

// SQLite copies the WAL by itself, but cuts it only with a later commit, and never while somebody reads it at
// that moment. Without waiting for readers: what cannot be cut now can be later.
void Store::cut_wal() {
  struct NoWaiting {
    explicit NoWaiting(Database& of) : database(of) {
      database.set_busy_timeout(std::chrono::milliseconds(0));
    }
    ~NoWaiting() { database.set_busy_timeout(Database::kBusyTimeout); }
    NoWaiting(const NoWaiting&) = delete;
    NoWaiting& operator=(const NoWaiting&) = delete;
    Database& database;
  };
  const NoWaiting no_waiting(*database_);
  database_->execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

Store::Sizes Store::sizes() const {
  const auto known = [](std::uintmax_t bytes, const std::error_code& error) { return error ? 0 : bytes; };
  std::error_code error;
  Sizes sizes;
  sizes.database_bytes = known(std::filesystem::file_size(dir_.database(), error), error);
  sizes.wal_bytes = known(std::filesystem::file_size(dir_.database().string() + "-wal", error), error);
  sizes.free_bytes = known(std::filesystem::space(dir_.path(), error).available, error);
  return sizes;
}

}  // namespace laggard::store
