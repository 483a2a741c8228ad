#include "daemon/store/data_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "tests/unit/store/sample.h"

namespace laggard::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kExt4 = 0xef53;

unsigned mode_of(const std::filesystem::path& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(DataDir, IsMadeForItsOwnerAlone) {
  const test::TempDir temp;
  const DataDir dir(temp.path() / "a" / "data");
  dir.create_database_file();
  EXPECT_EQ(mode_of(dir.path()), 0700U);
  EXPECT_EQ(mode_of(dir.database()), 0600U);
  EXPECT_EQ(mode_of(dir.path() / "lock"), 0600U);
}

TEST(DataDir, ASecondHolderIsRefusedAndToldWhoHasIt) {
  const test::TempDir temp;
  {
    const DataDir first(temp.path());
    EXPECT_THAT(
        [&] { DataDir second(temp.path()); },
        ThrowsMessage<Error>(AllOf(HasSubstr("another laggardd (pid " + std::to_string(getpid()) + ")"),
                                   HasSubstr(temp.path().string()))));
  }
  EXPECT_NO_THROW(DataDir(temp.path())) << "free again once the first is gone";
}

TEST(DataDir, ANetworkFileSystemIsRefusedAndNothingIsMade) {
  const test::TempDir temp;
  const std::filesystem::path data = temp.path() / "not" / "there";
  struct Case {
    std::int64_t type;
    const char* name;
  };
  // statfs(2); CIFS also as a machine with a signed 32-bit f_type says it.
  for (const Case& known :
       {Case{0x6969, "NFS"}, Case{0xff534d42, "CIFS"}, Case{static_cast<std::int32_t>(0xff534d42), "CIFS"},
        Case{0x517b, "SMB"}, Case{0x65735546, "FUSE"}, Case{0x0bd00bd0, "Lustre"}, Case{0x01021997, "9p"}}) {
    std::filesystem::path asked;
    const auto file_system = [&](const std::filesystem::path& path) {
      asked = path;
      return known.type;
    };
    EXPECT_THAT([&] { DataDir(data, file_system); },
                ThrowsMessage<Error>(
                    AllOf(HasSubstr(data.string()), HasSubstr(known.name), HasSubstr("local disk"))));
    EXPECT_EQ(asked, temp.path()) << "the directory it would be made in decides";
  }
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_NO_THROW(DataDir(data, [](const auto&) { return kExt4; }));
}

// In a process of its own, since the tests may run as root, whom no permission stops.
TEST(DataDir, ADirectoryThatCannotBeWrittenIsOneSentence) {
  const test::TempDir temp;
  std::filesystem::permissions(temp.path(), std::filesystem::perms(0555));
  EXPECT_EXIT(
      {
        if (getuid() == 0 && setuid(65'534) != 0) _exit(3);
        try {
          const DataDir dir(temp.path());
        } catch (const Error& error) {
          std::fputs(error.what(), stderr);
          _exit(7);
        }
        _exit(0);
      },
      ::testing::ExitedWithCode(7), "cannot write .*/lock: Permission denied");
  std::filesystem::permissions(temp.path(), std::filesystem::perms(0700));
}

}  // namespace
}  // namespace laggard::store
