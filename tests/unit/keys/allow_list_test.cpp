// The allow-list: its text, its file, and a file that changes.
#include "daemon/keys/allow_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "daemon/base/error.h"
#include "daemon/keys/key.h"
#include "daemon/keys/limits.h"
#include "daemon/keys/watched_allow_list.h"
#include "tests/support/error_of.h"
#include "tests/unit/agent/temp_dir.h"

namespace laggard::keys {
namespace {

using test::error_of, test::mode_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

const std::string kOne(40, '1'), kTwo(40, '2'), kThree(40, '3');

std::string line(const std::string& key, const std::string& more = "") {
  return R"({"key": ")" + key + "\"" + more + "}\n";
}

TEST(AllowList, ReadsWhatItWrites) {
  AllowList list;
  EXPECT_TRUE(list.allow({kOne, "node1", {}}));
  EXPECT_TRUE(list.allow({kTwo, "", {"job", "a \"b\" c"}}));
  const AllowList again = AllowList::parse(list.text(), "list");
  ASSERT_THAT(again.keys(), SizeIs(2));
  EXPECT_EQ(again.find(kOne)->note, "node1");
  EXPECT_THAT(again.find(kTwo)->runs, ElementsAre("job", "a \"b\" c"));
  EXPECT_EQ(again.find(kThree), nullptr);
  EXPECT_EQ(again.text(), list.text());
}

TEST(AllowList, EmptyLinesAndCommentsAreNothing) {
  const AllowList list = AllowList::parse("# mine\n\n \t\r\n" + line(kOne) + "# end", "list");
  EXPECT_THAT(list.keys(), SizeIs(1));
  EXPECT_THAT(AllowList::parse("", "list").keys(), SizeIs(0));
}

TEST(AllowList, AMalformedLineIsNamedByItsNumber) {
  const auto wrong = [](const std::string& bad) {
    return error_of([&] { (void)AllowList::parse("# head\n" + line(kOne) + bad, "/etc/list"); });
  };
  for (const std::string& bad :
       {std::string("nonsense"), std::string("[1]"), std::string("{}"), line("short"),
        line(std::string(40, '"')), line(std::string(40, ' ')), line(kTwo, R"(, "note": 7)"),
        line(kTwo, R"(, "runs": [])"), line(kTwo, R"(, "runs": "job")"), line(kTwo, R"(, "runs": [7])"),
        line(kTwo, R"(, "runs": ["a@2"])"), line(kTwo, R"(, "runs": [""])"),
        line(kTwo, R"(, "note": "\u0007")"), line(kTwo, ", \"note\": \"\xff\"")})
    EXPECT_THAT(wrong(bad), StartsWith("/etc/list:3: ")) << bad;
  // A tie that is misspelt must not be passed over: the key could deliver every run.
  EXPECT_THAT(wrong(line(kTwo, R"(, "run": ["job"])")),
              AllOf(StartsWith("/etc/list:3: "), HasSubstr("\"run\"")));
  EXPECT_EQ(wrong(line(kTwo)), "");
}

TEST(AllowList, AKeyTwiceIsMalformed) {
  EXPECT_THAT(error_of([] { (void)AllowList::parse(line(kOne) + line(kTwo) + line(kOne), "list"); }),
              AllOf(StartsWith("list:3: "), HasSubstr("again")));
}

TEST(AllowList, AKeyThatIsThereGetsFurtherRunsAndNothingElse) {
  AllowList list;
  EXPECT_TRUE(list.allow({kOne, "node1", {"a"}}));
  EXPECT_FALSE(list.allow({kOne, "node1", {"a"}}));
  EXPECT_TRUE(list.allow({kOne, "", {"b", "a"}}));
  EXPECT_THAT(list.find(kOne)->runs, ElementsAre("a", "b"));
  EXPECT_EQ(list.find(kOne)->note, "node1");
  EXPECT_THAT(error_of([&] { list.allow({kOne, "node1", {}}); }), HasSubstr("revoke it first"));
  EXPECT_TRUE(list.allow({kTwo, "node2", {}}));
  EXPECT_FALSE(list.allow({kTwo, "node2", {}}));
  EXPECT_THAT(error_of([&] { list.allow({kTwo, "node2", {"a"}}); }), HasSubstr("revoke it first"));
  EXPECT_THAT(error_of([&] { list.allow({kThree, "node2", {}}); }), HasSubstr("another key"));
  EXPECT_THAT(list.find(kOne)->runs, ElementsAre("a", "b"));
  EXPECT_TRUE(list.find(kTwo)->runs.empty());
  EXPECT_EQ(list.find(kThree), nullptr);
}

TEST(AllowList, WhatCannotBeAnEntryIsRefused) {
  AllowList list;
  for (const AllowedKey& bad :
       {AllowedKey{"short", "", {}}, AllowedKey{kOne, "a\nb", {}}, AllowedKey{kOne, "\xff", {}},
        AllowedKey{kOne, "", {""}}, AllowedKey{kOne, "", {"job@2"}},
        AllowedKey{kOne, "", {std::string(201, 'x')}}, AllowedKey{kOne, std::string(513, 'x'), {}},
        AllowedKey{kOne, "", std::vector<std::string>(limits::kMaxRunsPerKey + 1, "x")}})
    EXPECT_NE(error_of([&] { list.allow(bad); }), "") << bad.key << bad.note;
  EXPECT_TRUE(list.keys().empty());
}

TEST(AllowList, RevokingLeavesTheOthers) {
  AllowList list;
  for (const std::string& key : {kOne, kTwo, kThree}) list.allow({key, key, {}});
  EXPECT_TRUE(list.revoke(kTwo));
  EXPECT_FALSE(list.revoke(kTwo));
  EXPECT_EQ(list.find(kTwo), nullptr);
  EXPECT_EQ(list.find(kOne)->note, kOne);
  EXPECT_EQ(list.find(kThree)->note, kThree);
}

TEST(AllowList, ATiedKeyDeliversItsRunsAlone) {
  const AllowedKey tied{kOne, "", {"a", "b"}}, free{kOne, "", {}};
  EXPECT_TRUE(tied.may_deliver("b"));
  EXPECT_FALSE(tied.may_deliver("ab"));
  EXPECT_FALSE(tied.may_deliver(""));
  EXPECT_TRUE(free.may_deliver("anything"));
}

TEST(AllowListFile, IsPrivateAndWhole) {
  const test::TempDir dir;
  const std::string path = dir / "allowed.jsonl";
  change_allow_list(path, [](AllowList& list) { return list.allow({kOne, "node1", {}}); });
  EXPECT_EQ(mode_of(path), 0600U);
  change_allow_list(path, [](AllowList& list) { return list.allow({kTwo, "node2", {}}); });
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_THAT(read_allow_list(path).keys(), SizeIs(2));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir / "")) ++files;
  EXPECT_EQ(files, 1U);  // nothing temporary is left
}

TEST(AllowListFile, AChangeThatFailsChangesNothing) {
  const test::TempDir dir;
  const std::string path = dir / "allowed.jsonl";
  change_allow_list(path, [](AllowList& list) { return list.allow({kOne, "node1", {}}); });
  const std::string before = test::contents(path);
  EXPECT_NE(error_of([&] {
              change_allow_list(path, [](AllowList& list) -> bool {
                list.revoke(kOne);
                throw Error("no");
              });
            }),
            "");
  EXPECT_EQ(test::contents(path), before);
}

TEST(AllowListFile, OneThatOthersMayWriteIsRefused) {
  const test::TempDir dir;
  const std::string path = dir / "allowed.jsonl";
  test::append(path, line(kOne));
  for (const mode_t mode : {0620U, 0602U}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(error_of([&] { (void)read_allow_list(path); }),
                AllOf(HasSubstr(path), HasSubstr("chmod 600")));
  }
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(read_allow_list(path).keys(), SizeIs(1));
}

TEST(AllowListFile, HasABound) {
  const test::TempDir dir;
  const std::string path = dir / "allowed.jsonl";
  test::append(path, std::string(limits::kMaxAllowListBytes + 1, '\n'));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { (void)read_allow_list(path); }), HasSubstr("larger than"));
  EXPECT_THAT(error_of([&] { (void)read_allow_list(dir / ""); }), Not(""));
}

class WatchedAllowListTest : public testing::Test {
 protected:
  WatchedAllowListTest() { write(line(kOne)); }
  void write(const std::string& text) {
    std::filesystem::remove(path_);
    test::append(path_, text);
    EXPECT_EQ(chmod(path_.c_str(), 0600), 0);
  }
  test::TempDir dir_;
  const std::string path_ = dir_ / "allowed.jsonl";
};

TEST_F(WatchedAllowListTest, SeesAChange) {
  WatchedAllowList watched(path_);
  EXPECT_FALSE(watched.look());
  change_allow_list(path_, [](AllowList& list) { return list.allow({kTwo, "", {}}); });
  EXPECT_TRUE(watched.look());
  EXPECT_FALSE(watched.look());
  EXPECT_NE(watched.list()->find(kTwo), nullptr);
}

TEST_F(WatchedAllowListTest, AFileThatCannotBeReadAllowsNobodyUntilItCan) {
  WatchedAllowList watched(path_);
  write("nonsense\n");
  EXPECT_TRUE(watched.look());
  EXPECT_THAT(watched.problem(), HasSubstr(":1: "));
  EXPECT_EQ(watched.list()->find(kOne), nullptr);
  EXPECT_FALSE(watched.look());  // said once
  std::filesystem::remove(path_);
  EXPECT_TRUE(watched.look());
  EXPECT_EQ(watched.list()->find(kOne), nullptr);
  write(line(kOne));
  EXPECT_TRUE(watched.look());
  EXPECT_EQ(watched.problem(), "");
  EXPECT_NE(watched.list()->find(kOne), nullptr);
}

TEST_F(WatchedAllowListTest, BeginsOnlyWithAList) {
  std::filesystem::remove(path_);
  EXPECT_THAT(error_of([&] { const WatchedAllowList watched(path_); }), HasSubstr(path_));
}

}  // namespace
}  // namespace laggard::keys
