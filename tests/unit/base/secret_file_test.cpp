#include "daemon/base/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "daemon/base/error.h"

namespace laggard {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SecretFile : public testing::Test {
 protected:
  SecretFile() { std::filesystem::create_directories(dir_); }
  ~SecretFile() override { std::filesystem::remove_all(dir_); }

  std::filesystem::path write(const std::string& text, mode_t mode = 0600) const {
    const auto file = dir_ / "secret";
    std::ofstream(file, std::ios::binary) << text;
    chmod(file.c_str(), mode);
    return file;
  }
  static std::string reason(const std::filesystem::path& file) {
    try {
      return "taken: " + read_token_file(file);
    } catch (const Error& error) {
      return error.what();
    }
  }

  const std::filesystem::path dir_ =
      std::filesystem::temp_directory_path() / ("laggard-secret-test-" + std::to_string(::getpid()));
};

TEST_F(SecretFile, WhiteSpaceAroundATokenIsNoPartOfIt) {
  EXPECT_EQ(read_token_file(write("\t AZaz09-._~+/=123 \r\n\n  ")), "AZaz09-._~+/=123");
}

TEST_F(SecretFile, ATokenHasItsLengths) {
  for (const std::size_t size : {limits::kMinTokenBytes, limits::kMaxTokenBytes})
    EXPECT_EQ(read_token_file(write(std::string(size, 'x') + "\n")), std::string(size, 'x'));
  for (const std::size_t size : {std::size_t{0}, limits::kMinTokenBytes - 1, limits::kMaxTokenBytes + 1})
    EXPECT_THAT(reason(write(std::string(size, 'x'))), HasSubstr("has " + std::to_string(size) + " char"));
  EXPECT_THAT(reason(write(std::string(limits::kMaxSecretFileBytes + 1, 'x'))), HasSubstr("is larger than"));
}

TEST_F(SecretFile, WhatCannotStandInAFieldIsNoToken) {
  for (const char* text :
       {"sixteen characters", "sixteen\ncharacters", "sixteen-chär-acters", "sixteen\"charact"})
    EXPECT_THAT(reason(write(text)), AllOf(HasSubstr("letters, digits"), Not(HasSubstr("sixteen")))) << text;
  EXPECT_THAT(reason(write(std::string("sixteen\0characters", 18))), HasSubstr("letters, digits"));
}

TEST_F(SecretFile, NobodyElseMayReadOrWriteIt) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0610U, 0601U, 0644U, 0666U})
    EXPECT_THAT(reason(write("sixteen-characters", mode)), HasSubstr("chmod 600")) << mode;
  for (const mode_t mode : {0600U, 0400U, 0700U})
    EXPECT_EQ(reason(write("sixteen-characters", mode)), "taken: sixteen-characters") << mode;
}

TEST_F(SecretFile, OnlyAPlainFileIsRead) {
  EXPECT_THAT(reason(dir_ / "none"), HasSubstr("No such file"));
  const auto fifo = dir_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(reason(fifo), HasSubstr("no regular file"));
  EXPECT_THAT(reason(dir_), HasSubstr("no regular file"));
  EXPECT_THAT(reason("/dev/null"), HasSubstr("no regular file"));
}

TEST_F(SecretFile, ATokenIsMadeOnceAndIsNeverTheSame) {
  const auto file = dir_ / "a.token", other = dir_ / "b.token";
  make_token_file(file);
  const std::string token = read_token_file(file);
  EXPECT_THAT(token, testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(token.size(), 64U);
  make_token_file(file);
  EXPECT_EQ(read_token_file(file), token);
  make_token_file(other);
  EXPECT_NE(read_token_file(other), token);
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms{0600});
  EXPECT_THROW(make_token_file(dir_ / "none" / "c.token"), Error);
}

}  // namespace
}  // namespace laggard
