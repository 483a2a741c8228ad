// A thin wrapper over sqlite3: RAII, typed columns, and errors a person can read.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace laggard::store {

/// A query ran into the connection's deadline. Nothing is wrong with the database.
class QueryTimeout : public Error {
 public:
  using Error::Error;
};

/// Bytes to bind as a BLOB; they must outlive the statement's last step.
struct Blob {
  std::string_view bytes;
};

class Statement;

/// One connection, for one thread at a time. Every failure is an Error with the file and SQLite's message.
class Database {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Mode { read_only, read_write };

  /// Opens a file that exists; an empty one is an empty database.
  Database(std::string path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs statements that give no rows, or whose rows do not matter.
  void execute(const std::string& sql);
  /// The first column of the first row, 0 without one.
  std::int64_t integer(std::string_view sql);
  /// How long a statement waits for a lock that somebody else holds (a person's sqlite3, a backup).
  static constexpr std::chrono::milliseconds kBusyTimeout{5000};
  void set_busy_timeout(std::chrono::milliseconds timeout);
  /// From now on statements stop with QueryTimeout once this time has passed.
  void set_deadline(Clock::time_point deadline);
  bool in_transaction() const;
  const std::string& path() const { return path_; }

 private:
  friend class Statement;
  friend class Rows;
  [[noreturn]] void fail(int code) const;
  void close() noexcept;

  std::string path_;
  sqlite3* handle_ = nullptr;
  Clock::time_point deadline_{};
};

/// Rows of a running query. While one is open it holds a read transaction; it ends with the object. Columns
/// are read from left to right, each getter takes the next one.
class Rows {
 public:
  ~Rows();
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  /// Goes to the next row; false after the last one.
  bool next();
  std::int64_t integer();
  std::optional<std::int64_t> optional_integer();
  /// An integer column as a narrower type. NULL is 0: only for columns whose zero means unknown in the
  /// project's own types, or that are NOT NULL.
  template <std::integral T>
  T as() {
    return static_cast<T>(integer());
  }
  bool boolean() { return integer() != 0; }
  /// kAbsent for NULL.
  double real();
  /// "" for NULL. Valid until the next row.
  std::string_view text();
  std::string_view blob();
  /// Throws Error: what stands in the database is nothing this program writes.
  [[noreturn]] void damaged(const std::string& what) const;

 private:
  friend class Statement;
  Rows(const Database& database, sqlite3_stmt* handle) : database_(database), handle_(handle) {}
  const Database& database_;
  sqlite3_stmt* handle_;
  int column_ = 0;
};

/// A prepared statement; its Database must outlive it.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Binds the values to ?1, ?2, ... and runs the statement to its end.
  template <typename... Values>
  void run(const Values&... values) {
    Rows rows = query(values...);
    while (rows.next()) {
    }
  }
  /// Binds the values and returns the rows. Text must outlive them. One query at a time.
  template <typename... Values>
  [[nodiscard]] Rows query(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    return Rows(database_, handle_);
  }

 private:
  void bind(int index, std::nullopt_t);
  void bind_integer(int index, std::int64_t value);
  void bind(int index, double value);  // a NaN becomes NULL
  void bind(int index, std::string_view text);
  void bind(int index, Blob blob);
  template <std::integral T>
  void bind(int index, T value) {
    bind_integer(index, static_cast<std::int64_t>(value));
  }
  template <typename T>
  void bind(int index, const std::optional<T>& value) {
    if (value.has_value())
      bind(index, *value);
    else
      bind(index, std::nullopt);
  }
  void check(int code) const;

  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

/// A transaction that is rolled back unless it was committed.
class Transaction {
 public:
  enum class Kind { read, write };
  /// A write waits for other writers of the file for as long as the connection's busy timeout says.
  Transaction(Database& database, Kind kind);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
};

}  // namespace laggard::store
