#include "client/run_ref.h"

#include <gtest/gtest.h>

namespace laggard::client {
namespace {

TEST(RunRef, ReadsTheAttempt) {
  EXPECT_EQ(parse_run("job").name, "job");
  EXPECT_FALSE(parse_run("job").attempt);
  EXPECT_EQ(parse_run("job@2").name, "job");
  EXPECT_EQ(parse_run("job@2").attempt, 2U);
  EXPECT_EQ(parse_run("a@b@12").name, "a@b");
}

TEST(RunRef, ANameMayHoldAnAt) {
  for (const char* text : {"me@host", "@2", "job@0", "job@", "job@2x", "job@-1", "job@99999999999"}) {
    EXPECT_EQ(parse_run(text).name, text);
    EXPECT_FALSE(parse_run(text).attempt) << text;
  }
}

TEST(RunRef, BecomesATarget) {
  EXPECT_EQ(run_target({"a/b", std::nullopt}), "/api/v1/runs/a%2Fb");
  EXPECT_EQ(run_target({"j", 3}, "/steps", "from=1"), "/api/v1/runs/j/steps?attempt=3&from=1");
  EXPECT_EQ(run_target({"j", std::nullopt}, "/steps", "to=2"), "/api/v1/runs/j/steps?to=2");
}

}  // namespace
}  // namespace laggard::client
