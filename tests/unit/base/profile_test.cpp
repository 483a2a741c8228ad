#include "daemon/base/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/error.h"

namespace laggard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string error_of(const char* toml) {
  try {
    parse_profile(toml, "p.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Profile, PublishedJobReadsWhole) {
  const Profile profile = load_profile(LAGGARD_TEST_DATA "/published_runs/profile.toml");
  EXPECT_EQ(profile.parents.size(), 10u);
  EXPECT_EQ(profile.parents.at("vggt_single"), "geometry_total");
  EXPECT_EQ(profile.parents.at("backward_and_communication"), "backward_and_engine_step");
  EXPECT_THAT(profile.kinds, ElementsAre(Pair("backward_and_communication", "sync")));
  EXPECT_THAT(profile.exclusive_names, ElementsAre(Pair("forward_and_loss", "forward_other")));
  EXPECT_EQ(profile.stage_order.size(), 14u);
  EXPECT_EQ(profile.stage_order.front(), "batch_fetch_and_count");
  EXPECT_EQ(profile.stage_order.back(), "optimizer");
  EXPECT_THAT(profile.may_differ, ElementsAre("rank", "micro_batch", "accumulation"));
  EXPECT_THAT(profile.match_counts, ElementsAre("valid_tokens", "supervised_tokens", "frames", "samples"));
  EXPECT_THAT(profile.ratios,
              ElementsAre(Ratio{"padding %", "valid_tokens", "token_slots", true},
                          Ratio{"fallback %", "vggt_fallback_microbatches", "geometry_microbatches", false}));
}

TEST(Profile, EmptyTextIsAnEmptyProfile) { EXPECT_EQ(parse_profile("", "p.toml"), Profile()); }

TEST(Profile, SaysFileLineAndWhatIsWrong) {
  EXPECT_THAT(error_of("\nparent = 1\n"), HasSubstr("p.toml:2: unknown key parent"));
  EXPECT_THAT(error_of("[parents\n"), HasSubstr("p.toml:1: "));
  EXPECT_THAT(error_of("[kinds]\nloss = 3\n"), HasSubstr("p.toml:2: loss must be a text"));
  EXPECT_THAT(error_of("stage_order = 'a'\n"), HasSubstr("p.toml:1: stage_order must be an array"));
  EXPECT_THAT(error_of("[[ratios]]\nname = 'x'\n"), HasSubstr("needs name, numerator and denominator"));
  EXPECT_THAT(error_of("[[ratios]]\nnumer = 'x'\n"), HasSubstr("p.toml:2: a ratio has"));
}

TEST(Profile, RefusesAnUnknownKind) {
  EXPECT_THAT(error_of("[kinds]\nloss = 'wait'\n"), HasSubstr("unknown kind \"wait\""));
}

TEST(Profile, RefusesParentsThatFormACircle) {
  EXPECT_THAT(error_of("[parents]\na = 'a'\n"), HasSubstr("circle"));
  EXPECT_THAT(error_of("[parents]\na = 'b'\nb = 'c'\nc = 'b'\n"), HasSubstr("circle"));
  EXPECT_EQ(error_of("[parents]\na = 'b'\nb = 'c'\nc = 'd'\n"), "no error");
}

TEST(Profile, MissingFileIsAnError) { EXPECT_THROW(load_profile("/nonexistent/p.toml"), Error); }

}  // namespace
}  // namespace laggard
