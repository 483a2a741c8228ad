#include "client/views/fields.h"

#include <gtest/gtest.h>

namespace laggard::client {
namespace {

const Json kObject =
    Json::parse(R"({"n": 1.5, "i": 7, "s": "x", "null": null, "list": [4, 5, 6], "yes": true})");

TEST(Fields, WhatIsNotThereIsNothing) {
  EXPECT_TRUE(at(kObject, "missing").is_null());
  EXPECT_TRUE(at(at(kObject, "missing"), "below").is_null());
  EXPECT_TRUE(at(at(kObject, "s"), "below").is_null());
  EXPECT_FALSE(number(at(kObject, "null")));
  EXPECT_FALSE(number(at(kObject, "s")));
  EXPECT_FALSE(integer(at(kObject, "n")));
  EXPECT_FALSE(truth(at(kObject, "i")));
  EXPECT_EQ(text(at(kObject, "null")), "");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(real_cell(at(kObject, "s"), 2).value));
}

TEST(Fields, WhatIsThereIsRead) {
  EXPECT_EQ(number(at(kObject, "n")), 1.5);
  EXPECT_EQ(number(at(kObject, "i")), 7.0);
  EXPECT_EQ(integer(at(kObject, "i")), 7);
  EXPECT_EQ(text(at(kObject, "i")), "7");
  EXPECT_TRUE(truth(at(kObject, "yes")));
}

TEST(Fields, ListsAreCutByCount) {
  const Json& list = at(kObject, "list");
  EXPECT_EQ(listed(list, 8), "4, 5, 6");
  EXPECT_EQ(listed(list, 2), "4, 5 and 1 more");
  EXPECT_EQ(listed(list, 8, 10), "4, 5, 6 and 7 more");
  EXPECT_EQ(ranks_text(Json::array({3})), "rank 3");
  EXPECT_EQ(ranks_text(list), "ranks 4, 5, 6");
}

TEST(Fields, WordsGetTheirPlural) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
}

}  // namespace
}  // namespace laggard::client
