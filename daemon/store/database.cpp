#include "daemon/store/database.h"

#include <sqlite3.h>

#include <utility>

#include "daemon/base/value.h"

namespace laggard::store {
namespace {

// SQLite asks about the deadline after this many of its own instructions: some tens of microseconds.
constexpr int kInstructionsPerCheck = 1000;

std::string advice(int code) {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return "; it is no laggard database: move it away, or give another directory";
    case SQLITE_CORRUPT:
      return "; the file is damaged: move it away, or put a backup in its place";
    case SQLITE_FULL:
      return "; free some space on its disk";
    case SQLITE_BUSY:
      return "; another program holds its lock: end that program's transaction";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return "; the daemon's user must be able to write the file and its directory";
    default:
      return "";
  }
}

}  // namespace

Database::Database(std::string path, Mode mode) : path_(std::move(path)) {
  const int flags = (mode == Mode::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
  // Without SQLite's own mutex: a connection belongs to one thread at a time.
  const int code = sqlite3_open_v2(path_.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    const std::string message = sqlite3_errstr(code);
    close();
    throw Error(path_ + ": " + message + advice(code));
  }
  sqlite3_extended_result_codes(handle_, 1);
  set_busy_timeout(kBusyTimeout);
}

Database::~Database() { close(); }

void Database::close() noexcept { sqlite3_close_v2(std::exchange(handle_, nullptr)); }

void Database::fail(int code) const {
  if ((code & 0xff) == SQLITE_INTERRUPT) throw QueryTimeout(path_ + ": the query took longer than its limit");
  throw Error(path_ + ": " + sqlite3_errmsg(handle_) + advice(code));
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::integer(std::string_view sql) {
  Statement statement(*this, sql);
  Rows rows = statement.query();
  return rows.next() ? rows.integer() : 0;
}

void Database::set_busy_timeout(std::chrono::milliseconds timeout) {
  sqlite3_busy_timeout(handle_, static_cast<int>(timeout.count()));
}

void Database::set_deadline(Clock::time_point deadline) {
  deadline_ = deadline;
  sqlite3_progress_handler(
      handle_, kInstructionsPerCheck,
      [](void* self) { return Clock::now() >= static_cast<Database*>(self)->deadline_ ? 1 : 0; }, this);
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Rows::~Rows() {
  // The code repeats the error of the last step, which has been thrown already.
  sqlite3_reset(handle_);
}

bool Rows::next() {
  column_ = 0;
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail(code);
  return false;
}

std::int64_t Rows::integer() { return sqlite3_column_int64(handle_, column_++); }

std::optional<std::int64_t> Rows::optional_integer() {
  if (sqlite3_column_type(handle_, column_) != SQLITE_NULL) return integer();
  ++column_;
  return std::nullopt;
}

double Rows::real() {
  const int column = column_++;
  return sqlite3_column_type(handle_, column) == SQLITE_NULL ? kAbsent
                                                             : sqlite3_column_double(handle_, column);
}

std::string_view Rows::text() { return blob(); }

std::string_view Rows::blob() {
  const int column = column_++;
  const void* bytes = sqlite3_column_blob(handle_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_, column));
  return {static_cast<const char*>(bytes), size};
}

void Rows::damaged(const std::string& what) const {
  throw Error(database_.path() + ": damaged: " + what + "; move the file away, or put a backup in its place");
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  check(sqlite3_prepare_v3(database.handle_, sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &handle_, nullptr));
}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), handle_(std::exchange(other.handle_, nullptr)) {}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::check(int code) const {
  if (code != SQLITE_OK) database_.fail(code);
}

void Statement::bind(int index, std::nullopt_t) { check(sqlite3_bind_null(handle_, index)); }

void Statement::bind_integer(int index, std::int64_t value) {
  check(sqlite3_bind_int64(handle_, index, value));
}

void Statement::bind(int index, double value) { check(sqlite3_bind_double(handle_, index, value)); }

// A null pointer would be bound as NULL; "" is a text.
void Statement::bind(int index, std::string_view text) {
  check(sqlite3_bind_text64(handle_, index, text.data() == nullptr ? "" : text.data(), text.size(),
                            SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bind(int index, Blob blob) {
  check(sqlite3_bind_blob64(handle_, index, blob.bytes.data() == nullptr ? "" : blob.bytes.data(),
                            blob.bytes.size(), SQLITE_STATIC));
}

Transaction::Transaction(Database& database, Kind kind) : database_(database) {
  database_.execute(kind == Kind::write ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
  // SQLite ends the transaction by itself after some errors, such as a full disk.
  if (!database_.in_transaction()) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {
    // The error that brought us here is the one to hear of; SQLite undoes the rest when the file is reopened.
  }
}

void Transaction::commit() { database_.execute("COMMIT"); }

}  // namespace laggard::store
