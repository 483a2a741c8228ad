#include "daemon/serve/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/serve/query_error.h"

namespace laggard::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kToken = "sixteen-characters";
const Access kHere{.loopback_only = true, .token = kToken, .token_file = "/data/admin.token"};
const Access kEverywhere{.loopback_only = false, .token = kToken, .token_file = "/data/admin.token"};

/// "" when the request may go on, else why it may not.
std::string refusal(const Access& access, Level level, const std::string& authorization) {
  try {
    check_token(access, level, authorization);
    return "";
  } catch (const QueryError& error) {
    EXPECT_EQ(error.status(), 401);
    EXPECT_EQ(error.code(), "unauthorized");
    EXPECT_THAT(error.advice(), HasSubstr("Bearer TOKEN"));
    EXPECT_THAT(error.what(), Not(HasSubstr(kToken)));
    return error.what();
  }
}

TEST(Access, WhatNeedsTheTokenDependsOnWhoCanReachTheServer) {
  const auto needs_it = [](const Access& access, Level level) { return !refusal(access, level, "").empty(); };
  EXPECT_FALSE(needs_it(kHere, Level::open));
  EXPECT_FALSE(needs_it(kHere, Level::reading));
  EXPECT_TRUE(needs_it(kHere, Level::admin));
  EXPECT_FALSE(needs_it(kEverywhere, Level::open));
  EXPECT_TRUE(needs_it(kEverywhere, Level::reading));
  EXPECT_TRUE(needs_it(kEverywhere, Level::admin));
}

TEST(Access, TheTokenStandsBehindBearerInAnyCase) {
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER ", "Bearer   "})
    EXPECT_EQ(refusal(kEverywhere, Level::admin, std::string(scheme) + kToken), "") << scheme;
  for (const char* given :
       {"sixteen-characters", "Basic sixteen-characters", "Bearer", "Bearer ", "Bearer  ",
        "Bearersixteen-characters", "Bearer sixteen-character", "Bearer sixteen-characters ",
        "Bearer sixteen-characterx", "Bearer Sixteen-characters",
        "Bearer sixteen-characterssixteen-characters", "Bearer, sixteen-characters"})
    EXPECT_THAT(refusal(kEverywhere, Level::reading, given), HasSubstr("not that of this collector"))
        << given;
}

TEST(Access, WithoutATokenNobodyHasIt) {
  const Access none{.loopback_only = false};
  for (const char* given : {"", "Bearer", "Bearer ", "Bearer x"})
    EXPECT_NE(refusal(none, Level::admin, given), "") << given;
}

TEST(Access, OnlyUsersOfThisMachineAreToldWhereTheTokenIs) {
  for (const char* given : {"", "Bearer x"}) {
    EXPECT_THAT(refusal(kHere, Level::admin, given), HasSubstr("/data/admin.token"));
    EXPECT_THAT(refusal(kEverywhere, Level::admin, given), Not(HasSubstr("/data")));
  }
}

}  // namespace
}  // namespace laggard::serve
