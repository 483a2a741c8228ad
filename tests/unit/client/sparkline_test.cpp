#include "client/render/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace laggard::client {
namespace {

using Values = std::vector<std::optional<double>>;

TEST(Sparkline, ScalesBetweenSmallestAndLargest) {
  EXPECT_EQ(sparkline(Values{0, 1, 2, 3, 4, 5, 6, 7}, 20), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(Values{100, 107}, 20), "▁█");
}

TEST(Sparkline, EqualValuesAreLow) { EXPECT_EQ(sparkline(Values{5, 5, 5}, 20), "▁▁▁"); }

TEST(Sparkline, ShowsTheNewestThatFit) {
  // 1000 is out of sight and takes no part in the scale.
  EXPECT_EQ(sparkline(Values{1000, 0, 7}, 2), "▁█");
}

TEST(Sparkline, AbsentIsAGap) {
  EXPECT_EQ(sparkline(Values{1, std::nullopt, 2}, 20), "▁ █");
  EXPECT_EQ(sparkline(Values{1, std::nan(""), 2}, 20), "▁ █");
  EXPECT_EQ(sparkline(Values{}, 20), "");
}

}  // namespace
}  // namespace laggard::client
