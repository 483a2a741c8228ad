#include "daemon/store/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "daemon/store/store.h"
#include "tests/unit/store/sample.h"

namespace laggard::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::string_view kFirst = "CREATE TABLE t (a INTEGER)";
constexpr std::string_view kSecond = "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5";
constexpr std::string_view kBroken = "ALTER TABLE t ADD COLUMN c INTEGER; SELECT no_column FROM t";

class SchemaTest : public ::testing::Test {
 protected:
  SchemaTest() { std::ofstream(file_).flush(); }
  test::TempDir dir_;
  std::filesystem::path file_ = dir_.path() / "laggard.db";
};

TEST_F(SchemaTest, AnOlderSchemaIsBroughtToTheNewestAndKeepsItsData) {
  Database database(file_.string(), Database::Mode::read_write);
  migrate(database, std::vector{kFirst});
  database.execute("INSERT INTO t VALUES (3)");
  const std::vector newer{kFirst, kSecond};
  check_schema(database, newer);
  migrate(database, newer);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 2);
  EXPECT_EQ(database.integer("SELECT a * 10 + b FROM t"), 35);
  migrate(database, newer);
  EXPECT_EQ(database.integer("SELECT count(*) FROM t"), 1) << "nothing is done twice";
}

TEST_F(SchemaTest, AMigrationThatFailsLeavesTheVersionBefore) {
  Database database(file_.string(), Database::Mode::read_write);
  migrate(database, std::vector{kFirst});
  EXPECT_THROW(migrate(database, std::vector{kFirst, kBroken}), Error);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 1);
  EXPECT_EQ(database.integer("SELECT count(*) FROM pragma_table_info('t')"), 1);
}

TEST_F(SchemaTest, ANewerSchemaIsRefusedAndTheFileStaysAsItIs) {
  { const Store store(dir_.path()); }
  Database(file_.string(), Database::Mode::read_write).execute("PRAGMA user_version = 99");
  const std::string before = test::contents(file_);
  ASSERT_FALSE(before.empty());
  EXPECT_THAT([&] { Store store(dir_.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr(file_.string()), HasSubstr("version 99 is newer"))));
  EXPECT_EQ(test::contents(file_), before);
}

TEST_F(SchemaTest, AnotherProgramsDatabaseIsRefusedAndStaysAsItIs) {
  Database(file_.string(), Database::Mode::read_write).execute("CREATE TABLE theirs (a)");
  const std::string before = test::contents(file_);
  EXPECT_THAT([&] { Store store(dir_.path()); }, ThrowsMessage<Error>(HasSubstr("another program")));
  EXPECT_EQ(test::contents(file_), before);
}

TEST_F(SchemaTest, AFileThatIsNoDatabaseIsRefusedAndStaysAsItIs) {
  const std::string text(10'000, 'x');
  std::ofstream(file_) << text;
  EXPECT_THAT([&] { Store store(dir_.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr(file_.string()), HasSubstr("file is not a database"))));
  EXPECT_EQ(test::contents(file_), text);
}

// schema/README.md

std::vector<std::string> queries_of_readme() {
  const std::string readme = test::contents(LAGGARD_SCHEMA_DIR "/README.md");
  const std::regex block("```sql\n([^`]*)```");
  std::vector<std::string> queries;
  for (std::sregex_iterator it(readme.begin(), readme.end(), block), end; it != end; ++it)
    queries.push_back((*it)[1]);
  return queries;
}

// Rows as text, columns separated by '|', as sqlite3 prints them.
std::vector<std::string> run(Database& database, const std::string& query, int columns) {
  Statement statement(database, query);
  Rows rows = statement.query();
  std::vector<std::string> lines;
  while (rows.next()) {
    std::string& line = lines.emplace_back();
    for (int i = 0; i < columns; ++i) line += (i == 0 ? "" : "|") + std::string(rows.text());
  }
  return lines;
}

TEST_F(SchemaTest, TheReadmesQueriesAnswer) {
  test::Sample sample;
  Store store(dir_.path());
  store.commit(sample.facts());
  core::Writes writes;
  struct Row {
    Step step;
    double wall_max, excess;
    bool aside;
  };
  for (const Row& row :
       {Row{98, 200, 3, false}, Row{99, 100, 4, false}, Row{100, 500, 5, false}, Row{101, 9'000, 6, true}}) {
    const auto view = test::Sample::view(row.step);
    view->breakdown.wall.max = row.wall_max;
    view->breakdown.culprit->own_excess_ms = row.excess;
    view->breakdown.aside = row.aside;
    writes.steps.push_back({.attempt = test::kAttempt, .view = view});
  }
  writes.sources.push_back(
      {.key = 1, .run = 1, .id = "a", .counts = {.stored = 4, .duplicate = 2, .dropped = 1}});
  writes.sources.push_back({.key = 2, .run = 1, .rank = 1, .id = "b", .counts = {.stored = 5, .late = 1}});
  store.commit(writes);

  Database database(file_.string(), Database::Mode::read_only);
  const std::vector<std::string> queries = queries_of_readme();
  ASSERT_EQ(queries.size(), 5U);
  using ::testing::ElementsAre;
  EXPECT_THAT(run(database, queries[0], 6), ElementsAre("job|1|1|forward|3|0.012"));
  EXPECT_THAT(run(database, queries[1], 4), ElementsAre("0|2|150.0|200.0", "100|1|500.0|500.0"));
  EXPECT_THAT(run(database, queries[2], 4), ElementsAre("forward|work|2.5|2.0"));
  EXPECT_THAT(run(database, queries[3], 6), ElementsAre("job|1|3|4|98|101"));
  EXPECT_THAT(run(database, queries[4], 7), ElementsAre("job|12|9|2|0|0|1"));
}

TEST_F(SchemaTest, TheReadmeNamesEveryColumnAndNoOther) {
  const Store store(dir_.path());
  Database database(file_.string(), Database::Mode::read_only);
  std::set<std::string> actual;
  {
    Statement statement(database,
                        "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c "
                        "WHERE t.type = 'table'");
    Rows rows = statement.query();
    while (rows.next()) actual.emplace(rows.text());
  }
  const std::string readme = test::contents(LAGGARD_SCHEMA_DIR "/README.md");
  std::set<std::string> told;
  std::string table;
  std::istringstream lines(
      readme.substr(readme.find("## Tables"), readme.find("## Views") - readme.find("## Tables")));
  const std::regex column("`([a-z_]+)`");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("### ")) table = line.substr(4);
    if (!line.starts_with("| `")) continue;
    const std::string first = line.substr(0, line.find(" | "));
    for (std::sregex_iterator it(first.begin(), first.end(), column), end; it != end; ++it)
      told.insert(table + "." + std::string((*it)[1]));
  }
  EXPECT_EQ(told, actual);
}

}  // namespace
}  // namespace laggard::store
