#include "agent/file_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <memory>
#include <set>
#include <sstream>

#include "agent/line_parser.h"
#include "daemon/base/limits.h"
#include "tests/unit/agent/temp_dir.h"

namespace laggard::agent {
namespace {

using test::append;
using test::contents;
using test::TempDir;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> drain(FileFollower& follower) {
  std::vector<std::string> out;
  while (const auto line = follower.next()) out.emplace_back(line->too_long ? "(too long)" : line->text);
  return out;
}

class FileFollowerTest : public testing::Test {
 protected:
  TempDir dir_;
  const std::string path_ = dir_ / "rank0.jsonl";
};

TEST_F(FileFollowerTest, FileThatDoesNotExistHasNoLinesYet) {
  FileFollower follower(path_);
  EXPECT_THAT(drain(follower), IsEmpty());
  EXPECT_EQ(follower.place(), std::nullopt);
  append(path_, "a\n");
  EXPECT_THAT(drain(follower), ElementsAre("a"));
}

TEST_F(FileFollowerTest, PathThatCannotBeOpenedSaysWhyUntilItCan) {
  FileFollower follower(path_);
  EXPECT_THAT(drain(follower), IsEmpty());
  EXPECT_EQ(follower.problem(), "");  // not there yet
  std::filesystem::create_directory(path_);
  EXPECT_THAT(drain(follower), IsEmpty());
  EXPECT_EQ(follower.problem(), "it is a directory");
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(drain(follower), IsEmpty());
  EXPECT_EQ(follower.problem(), "it is no regular file");
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(path_, path_);
  EXPECT_THAT(drain(follower), IsEmpty());
  EXPECT_EQ(follower.problem(), "Too many levels of symbolic links");
  std::filesystem::remove(path_);
  append(path_, "a\n");
  EXPECT_THAT(drain(follower), ElementsAre("a"));
  EXPECT_EQ(follower.problem(), "");
}

TEST_F(FileFollowerTest, FollowerThatKeepsToItsFileDoesNotReadTheOneThatTakesItsName) {
  append(path_, "a\n");
  FileFollower follower(path_);
  follower.keep_to_file();
  EXPECT_THAT(drain(follower), ElementsAre("a"));
  std::filesystem::rename(path_, dir_ / "away");
  append(path_, "b\n");
  append(dir_ / "away", "c\n");
  EXPECT_THAT(drain(follower), ElementsAre("c"));
}

TEST_F(FileFollowerTest, TruncationThatLosesUnreadBytesIsWarnedOf) {
  std::ostringstream said;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(said)));
  const std::string line(999, 'x');
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += line + "\n";
  append(path_, lines);
  FileFollower follower(path_);
  ASSERT_TRUE(follower.next());  // reads 256 KiB of the 500,000 bytes: 237,856 are left
  test::truncate(path_);
  append(path_, "new\n");
  EXPECT_THAT(drain(follower).back(), "new");
  test::truncate(path_);  // all was read: no loss
  EXPECT_THAT(drain(follower), IsEmpty());
  spdlog::set_default_logger(before);
  EXPECT_THAT(said.str(), testing::HasSubstr(path_ + " was truncated: at least 237856 bytes"));
  EXPECT_EQ(std::ranges::count(said.str(), '\n'), 1);
}

TEST_F(FileFollowerTest, UnfinishedLastLineWaitsForItsRest) {
  FileFollower follower(path_);
  append(path_, "one\ntw");
  EXPECT_THAT(drain(follower), ElementsAre("one"));
  EXPECT_TRUE(follower.has_tail());
  EXPECT_EQ(follower.place()->offset, 4u);
  append(path_, "o\n\nthree");
  EXPECT_THAT(drain(follower), ElementsAre("two", ""));
  EXPECT_EQ(follower.place()->offset, 9u);
  EXPECT_EQ(follower.place()->line_number, 3u);
  const auto tail = follower.take_tail();
  ASSERT_TRUE(tail.has_value());
  EXPECT_EQ(tail->text, "three");
  EXPECT_EQ(tail->number, 4u);
  EXPECT_EQ(follower.take_tail(), std::nullopt);
}

TEST_F(FileFollowerTest, VanishedFileComesAgain) {
  FileFollower follower(path_);
  append(path_, "a\n");
  EXPECT_THAT(drain(follower), ElementsAre("a"));
  std::filesystem::rename(path_, dir_ / "away");
  EXPECT_THAT(drain(follower), IsEmpty());
  append(dir_ / "away", "b\n");  // its writer still has it open
  EXPECT_THAT(drain(follower), ElementsAre("b"));
  append(path_, "c\n");
  EXPECT_THAT(drain(follower), ElementsAre("c"));
}

TEST_F(FileFollowerTest, RenamedFileIsReadToItsEndBeforeItsSuccessor) {
  FileFollower follower(path_);
  append(path_, "a\n");
  EXPECT_THAT(drain(follower), ElementsAre("a"));
  append(path_, "b\ntorn");
  std::filesystem::rename(path_, path_ + ".1");
  append(path_, "c\n");
  EXPECT_THAT(drain(follower), ElementsAre("b", "torn", "c"));
  EXPECT_EQ(follower.truncations(), 0u);
}

TEST_F(FileFollowerTest, SeveralRotationsBetweenTwoLooksLoseNothing) {
  for (const bool newest_is_one :
       {false, true}) {  // F.1, F.2, ... in order of time, or as logrotate names them
    TempDir dir;
    const std::string path = dir / "log";
    FileFollower follower(path);
    append(path, "a\n");
    EXPECT_THAT(drain(follower), ElementsAre("a"));
    std::filesystem::rename(path, path + (newest_is_one ? ".3" : ".1"));
    append(path, "b\n");
    std::filesystem::rename(path, path + ".2");
    append(path, "c\n");
    std::filesystem::rename(path, path + (newest_is_one ? ".1" : ".3"));
    append(path, "d\n");
    const std::vector<std::string> lines = drain(follower);
    EXPECT_EQ(std::multiset<std::string>(lines.begin(), lines.end()),
              (std::multiset<std::string>{"b", "c", "d"}));
    EXPECT_EQ(lines.back(), "d");
  }
}

TEST_F(FileFollowerTest, OldRotatedFilesAreNotRead) {
  append(path_ + ".1", "old\n");
  std::filesystem::last_write_time(path_ + ".1",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  FileFollower follower(path_);
  append(path_, "a\n");
  EXPECT_THAT(drain(follower), ElementsAre("a"));
  std::filesystem::rename(path_ + ".1", path_ + ".2");
  std::filesystem::rename(path_, path_ + ".1");
  append(path_, "b\n");
  EXPECT_THAT(drain(follower), ElementsAre("b"));
}

TEST_F(FileFollowerTest, TruncationIsSeenEvenWhenTheFileHasGrownBeyondTheOldPlace) {
  FileFollower follower(path_);
  append(path_, "a1\na2\n");
  EXPECT_THAT(drain(follower), ElementsAre("a1", "a2"));
  test::truncate(path_);
  append(path_, "b1\n");
  EXPECT_THAT(drain(follower), ElementsAre("b1"));
  test::truncate(path_);
  append(path_, "c1 is longer than b1\nc2\n");
  EXPECT_THAT(drain(follower), ElementsAre("c1 is longer than b1", "c2"));
  EXPECT_EQ(follower.truncations(), 2u);
}

TEST_F(FileFollowerTest, TruncationIsSeenEvenWhenTheFileHasItsOldSizeAgain) {
  FileFollower follower(path_);
  append(path_, "a\n");
  EXPECT_THAT(drain(follower), ElementsAre("a"));
  test::truncate(path_);
  append(path_, "b\n");
  EXPECT_THAT(drain(follower), ElementsAre("b"));
}

TEST_F(FileFollowerTest, TruncationBehindTheSameHeadIsSeen) {
  const std::string head(2000, 'h');
  FileFollower follower(path_);
  append(path_, head + "\na\n");
  drain(follower);
  test::truncate(path_);
  append(path_, head + "\nb\nc\n");
  EXPECT_THAT(drain(follower), ElementsAre(head, "b", "c"));
}

TEST_F(FileFollowerTest, HoleThatATruncationLeavesIsSkipped) {
  FileFollower follower(path_);
  const std::string hole(3'000'000, '\0');  // longer than any line may be
  append(path_, hole + "a\n" + hole + "b\n");
  EXPECT_THAT(drain(follower), ElementsAre("a", "b"));
}

TEST_F(FileFollowerTest, LineThatIsTooLongIsNotHeldInMemory) {
  FileFollower follower(path_);
  append(path_, std::string(limits::kMaxLineBytes, 'x') + "\n" + std::string(limits::kMaxLineBytes + 1, 'y') +
                    "\n" + std::string(5 * limits::kMaxLineBytes, 'z') + "\nshort\n");
  const std::vector<std::string> lines = drain(follower);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].size(), limits::kMaxLineBytes);
  EXPECT_EQ(lines[1], "(too long)");
  EXPECT_EQ(lines[2], "(too long)");
  EXPECT_EQ(lines[3], "short");
  append(path_, std::string(2 * limits::kMaxLineBytes, 'z'));
  EXPECT_THAT(drain(follower), IsEmpty());
  EXPECT_TRUE(follower.take_tail()->too_long);
}

TEST_F(FileFollowerTest, ResumeGoesOnWhereItStopped) {
  append(path_, "a\nb\nta");
  FilePlace place;
  {
    FileFollower follower(path_);
    drain(follower);
    place = *follower.place();
  }
  append(path_, "il\n");
  FileFollower follower(path_);
  ASSERT_TRUE(follower.resume(place));
  const auto line = follower.next();
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->text, "tail");
  EXPECT_EQ(line->number, 3u);
}

TEST_F(FileFollowerTest, ResumeRefusesAFileThatIsNotWhatItWas) {
  append(path_, "a\nb\n");
  FilePlace place;
  {
    FileFollower follower(path_);
    drain(follower);
    place = *follower.place();
  }
  test::truncate(path_);
  append(path_, "a\nc\nd\n");
  FileFollower follower(path_);
  EXPECT_FALSE(follower.resume(place));
  EXPECT_THAT(drain(follower), ElementsAre("a", "c", "d"));
  std::filesystem::remove(path_);
  FileFollower without_file(path_);
  EXPECT_FALSE(without_file.resume(place));
}

// Case A06: 30 updates, each step once, nothing rejected.
class RotationCase : public FileFollowerTest {
 protected:
  void look() {
    while (const auto line = follower_->next()) {
      parser_.start(line->text);
      while (const ParsedLine* parsed = parser_.next()) {
        if (parsed->kind == LineKind::update)
          steps_.push_back(parsed->step);
        else
          ++others_;
      }
    }
  }
  void expect_all() const {
    std::vector<Step> expected;
    for (Step step = 1; step <= 30; ++step) expected.push_back(step);
    EXPECT_EQ(steps_, expected);
    EXPECT_EQ(others_, 0);
  }

  const std::string p1_ = contents(LAGGARD_TEST_DATA "/cases/A06/p1.jsonl");
  const std::string p2_ = contents(LAGGARD_TEST_DATA "/cases/A06/p2.jsonl");
  const std::string p3_ = contents(LAGGARD_TEST_DATA "/cases/A06/p3.jsonl");
  std::unique_ptr<FileFollower> follower_ = std::make_unique<FileFollower>(path_);
  LineParser parser_;
  std::vector<Step> steps_;
  int others_ = 0;
};

TEST_F(RotationCase, Rename) {
  append(path_, p1_);
  look();
  std::filesystem::rename(path_, path_ + ".1");
  append(path_, p2_);
  look();
  std::filesystem::rename(path_, path_ + ".2");
  append(path_, p3_);
  look();
  expect_all();
}

TEST_F(RotationCase, Copytruncate) {
  append(path_, p1_);
  look();
  std::filesystem::copy_file(path_, path_ + ".1");
  test::truncate(path_);
  append(path_, p2_);
  look();
  std::filesystem::copy_file(path_, path_ + ".2");
  test::truncate(path_);
  append(path_, p3_);
  look();
  expect_all();
  EXPECT_EQ(follower_->truncations(), 2u);
}

TEST_F(RotationCase, TruncateAndGrow) {
  append(path_, p1_);
  look();
  test::truncate(path_);
  append(path_, p2_ + p3_);
  look();
  expect_all();
}

TEST_F(RotationCase, Restart) {
  append(path_, p1_);
  look();
  const FilePlace place = *follower_->place();
  follower_.reset();
  std::filesystem::rename(path_, path_ + ".1");
  append(path_, p2_);
  append(path_, p3_);
  follower_ = std::make_unique<FileFollower>(path_);
  EXPECT_TRUE(follower_->resume(place));
  look();
  expect_all();
}

TEST_F(RotationCase, SplitWrites) {
  const std::string all = p1_ + p2_ + p3_;
  for (std::size_t at = 0; at < all.size(); at += 7) {
    append(path_, all.substr(at, 7));
    look();
  }
  expect_all();
}

}  // namespace
}  // namespace laggard::agent
