// Key pairs and the files that hold them.
#include "daemon/keys/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/keys/limits.h"
#include "tests/support/error_of.h"
#include "tests/unit/agent/temp_dir.h"

namespace laggard::keys {
namespace {

using test::error_of, test::mode_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Key, IsFortyCharactersOfZ85) {
  // The test vector of https://rfc.zeromq.org/spec/26, a public and a secret key.
  EXPECT_TRUE(is_key("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"));
  EXPECT_TRUE(is_key("D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"));
  EXPECT_FALSE(is_key(""));
  EXPECT_FALSE(is_key(std::string(39, '1')));
  EXPECT_FALSE(is_key(std::string(41, '1')));
  EXPECT_FALSE(is_key(std::string(40, '~')));
  EXPECT_FALSE(is_key(std::string(40, '#')));  // its numbers are beyond 32 bits
  EXPECT_FALSE(is_key(std::string(39, '1') + '\0'));
}

TEST(Key, ThePublicHalfFollowsFromTheSecretOne) {
  EXPECT_EQ(pair_of("D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs").public_key,
            "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID");
  const KeyPair pair = make_key_pair();
  EXPECT_EQ(pair_of(pair.secret_key).public_key, pair.public_key);
  EXPECT_NE(make_key_pair().secret_key, pair.secret_key);
}

TEST(KeyFile, TheSecretIsForItsOwnerAlone) {
  const test::TempDir dir;
  const mode_t mask = umask(0);
  const KeyFiles files = create_key_files(dir / "", "node1");
  umask(mask);
  EXPECT_EQ(mode_of(files.secret_file), 0600U);
  EXPECT_EQ(mode_of(files.public_file), 0644U);
  const KeyPair pair = read_secret_file(files.secret_file);
  EXPECT_EQ(pair.public_key, files.public_key);
  const PublicKey key = read_public_key(files.public_file);
  EXPECT_EQ(key.key, files.public_key);
  EXPECT_EQ(key.name, "node1");
  EXPECT_THAT(test::contents(files.public_file), Not(HasSubstr(pair.secret_key)));
}

TEST(KeyFile, NothingIsOverwritten) {
  const test::TempDir dir;
  const KeyFiles files = create_key_files(dir / "", "node1");
  const std::string secret = test::contents(files.secret_file), open = test::contents(files.public_file);
  EXPECT_THAT(error_of([&] { create_key_files(dir / "", "node1"); }), HasSubstr("exists"));
  EXPECT_EQ(test::contents(files.secret_file), secret);
  EXPECT_EQ(test::contents(files.public_file), open);
  // Either of the two is enough, and a link that leads nowhere is a file too.
  std::filesystem::remove(files.secret_file);
  EXPECT_THAT(error_of([&] { create_key_files(dir / "", "node1"); }), HasSubstr("exists"));
  EXPECT_FALSE(std::filesystem::exists(files.secret_file));
  ASSERT_EQ(symlink((dir / "elsewhere").c_str(), (dir / "node2.secret").c_str()), 0);
  EXPECT_NE(error_of([&] { create_key_files(dir / "", "node2"); }), "");
  EXPECT_FALSE(std::filesystem::exists(dir / "elsewhere"));
}

TEST(KeyFile, ANameIsNoPath) {
  const test::TempDir dir;
  for (const std::string& name :
       {std::string(), std::string("../up"), std::string("a/b"), std::string(".hidden"), std::string("-x"),
        std::string("a b"), std::string("a\n"), std::string(limits::kMaxKeyNameBytes + 1, 'a')})
    EXPECT_NE(error_of([&] { create_key_files(dir / "", name); }), "") << name;
  EXPECT_TRUE(std::filesystem::is_empty(dir / ""));
}

TEST(KeyFile, ASecretThatOthersCanReadIsRefused) {
  const test::TempDir dir;
  const KeyFiles files = create_key_files(dir / "", "node1");
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0610U, 0601U}) {
    ASSERT_EQ(chmod(files.secret_file.c_str(), mode), 0);
    EXPECT_THAT(error_of([&] { (void)read_secret_file(files.secret_file); }),
                AllOf(HasSubstr(files.secret_file.string()), HasSubstr("chmod 600")));
  }
  ASSERT_EQ(chmod(files.secret_file.c_str(), 0400), 0);
  EXPECT_EQ(error_of([&] { (void)read_secret_file(files.secret_file); }), "");
}

TEST(KeyFile, TheTwoHalvesAreNotMixedUp) {
  const test::TempDir dir;
  const KeyFiles files = create_key_files(dir / "", "node1");
  const std::string secret = read_secret_file(files.secret_file).secret_key;
  ASSERT_EQ(chmod(files.public_file.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { (void)read_secret_file(files.public_file); }), HasSubstr("public"));
  EXPECT_THAT(error_of([&] { (void)read_public_key(files.secret_file); }),
              AllOf(HasSubstr("secret"), Not(HasSubstr(secret))));
  // Somebody gives the secret itself: it is in their shell's history already, but goes no further.
  EXPECT_THAT(error_of([&] { (void)read_secret_file(secret); }), AllOf(Not(""), Not(HasSubstr(secret))));
}

TEST(KeyFile, WhatIsNoKeyFileIsNotRepeated) {
  const test::TempDir dir;
  const std::string path = dir / "odd", key(40, '1');
  for (const std::string& text : {std::string(), "secret " + key.substr(1), "seecret " + key,
                                  "secret " + key + "\nsecret " + key, key, std::string(5000, '\n')}) {
    std::filesystem::remove(path);
    test::append(path, text);
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    EXPECT_THAT(error_of([&] { (void)read_secret_file(path); }),
                AllOf(HasSubstr(path), Not(HasSubstr("1111"))))
        << text;
  }
  EXPECT_THAT(error_of([&] { (void)read_secret_file(dir / "missing"); }), HasSubstr("missing"));
  EXPECT_THAT(error_of([&] { (void)read_secret_file("/dev/null"); }), HasSubstr("regular"));
}

TEST(KeyFile, APublicKeyMayBeText) {
  const test::TempDir dir;
  const std::string key(40, '1');
  EXPECT_EQ(read_public_key(key).key, key);
  EXPECT_NE(error_of([] { (void)read_public_key("short"); }), "");
}

TEST(PeerKeys, TakesBothOrNone) {
  const test::TempDir dir;
  const KeyFiles own = create_key_files(dir / "", "node1"),
                 collector = create_key_files(dir / "", "collector");
  EXPECT_FALSE(read_peer_keys("", "").has_value());
  EXPECT_NE(error_of([&] { (void)read_peer_keys(own.secret_file, ""); }), "");
  EXPECT_NE(error_of([&] { (void)read_peer_keys("", collector.public_key); }), "");
  for (const std::string& theirs : {collector.public_key, collector.public_file.string()}) {
    const auto keys = read_peer_keys(own.secret_file, theirs);
    ASSERT_TRUE(keys.has_value());
    EXPECT_EQ(keys->own.public_key, own.public_key);
    EXPECT_EQ(keys->collector, collector.public_key);
  }
}

}  // namespace
}  // namespace laggard::keys
