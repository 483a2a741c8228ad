#include "daemon/store/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "daemon/base/value.h"
#include "tests/unit/store/sample.h"

namespace laggard::store {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class DatabaseTest : public ::testing::Test {
 protected:
  DatabaseTest() { std::ofstream(file_).flush(); }
  test::TempDir dir_;
  std::string file_ = (dir_.path() / "test.db").string();
};

TEST_F(DatabaseTest, KeepsValuesAndTellsNullFromZeroAndFromNothing) {
  Database database(file_, Database::Mode::read_write);
  database.execute("CREATE TABLE t (a INTEGER, b REAL, c TEXT, d BLOB, e INTEGER, f REAL)");
  const std::string bytes("a\0b", 3);
  Statement(database, "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)")
      .run(std::numeric_limits<std::int64_t>::min(), -0.1, std::string_view(), Blob{bytes},
           std::optional<std::int64_t>(), kAbsent);
  Statement select(database, "SELECT a, b, c, d, e, f, c IS NULL, f IS NULL FROM t");
  Rows rows = select.query();
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(rows.real(), -0.1);
  EXPECT_EQ(rows.text(), "");
  EXPECT_EQ(rows.blob(), bytes);
  EXPECT_EQ(rows.optional_integer(), std::nullopt);
  EXPECT_EQ(state_of(rows.real()), ValueState::absent);
  EXPECT_FALSE(rows.boolean()) << "an empty text is no NULL";
  EXPECT_TRUE(rows.boolean());
  EXPECT_FALSE(rows.next());
}

TEST_F(DatabaseTest, InfinitiesAreKeptAndEveryNanIsNull) {
  Database database(file_, Database::Mode::read_write);
  Statement select(database, "SELECT ?1, ?2, ?3");
  Rows rows = select.query(std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.real(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rows.real(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(rows.optional_integer(), std::nullopt);
}

TEST_F(DatabaseTest, AnErrorNamesTheFileAndSaysWhatIsWrong) {
  Database database(file_, Database::Mode::read_write);
  EXPECT_THAT([&] { database.execute("SELECT * FROM no_table"); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr(file_), HasSubstr("no such table: no_table"))));
  EXPECT_THAT([&] { Database(file_ + ".missing", Database::Mode::read_only); },
              ThrowsMessage<Error>(HasSubstr(file_ + ".missing")));
}

TEST_F(DatabaseTest, AReadOnlyConnectionCannotWrite) {
  Database database(file_, Database::Mode::read_only);
  EXPECT_THROW(database.execute("CREATE TABLE t (a)"), Error);
}

TEST_F(DatabaseTest, ATransactionThatIsNotCommittedLeavesNothing) {
  Database database(file_, Database::Mode::read_write);
  database.execute("CREATE TABLE t (a)");
  {
    const Transaction transaction(database, Transaction::Kind::write);
    database.execute("INSERT INTO t VALUES (1)");
    EXPECT_TRUE(database.in_transaction());
  }
  EXPECT_FALSE(database.in_transaction());
  EXPECT_EQ(database.integer("SELECT count(*) FROM t"), 0);
}

TEST_F(DatabaseTest, AQueryStopsAtItsDeadlineAndTheNextOneRuns) {
  Database database(file_, Database::Mode::read_write);
  database.set_deadline(Database::Clock::now());
  EXPECT_THROW(database.integer("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                                "SELECT count(*) FROM n"),
               QueryTimeout);
  database.set_deadline(Database::Clock::now() + std::chrono::hours(1));
  EXPECT_EQ(
      database.integer("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
                       "SELECT count(*) FROM n"),
      10'000);
}

}  // namespace
}  // namespace laggard::store
