#include "client/render/number.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

namespace laggard::client {
namespace {

TEST(Number, ShortestReadsBackAsTheSameDouble) {
  EXPECT_EQ(shortest(14.673566439468413), "14.673566439468413");
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(3), "3");
  for (const double value : {1.0 / 3, 5e-324, 1.7976931348623157e308, -15.414719466585666}) {
    EXPECT_EQ(std::strtod(shortest(value).c_str(), nullptr), value);
  }
}

TEST(Number, FixedRoundsTheExactValue) {
  EXPECT_EQ(fixed(14.6740, 3), "14.674");
  EXPECT_EQ(fixed(0.00004, 4), "0.0000");
  EXPECT_EQ(fixed(-0.00004, 4), "0.0000");
  EXPECT_EQ(fixed(-0.0, 1), "0.0");
  EXPECT_EQ(fixed(-0.06, 1), "-0.1");
  // The double nearest to 2.675 lies below it.
  EXPECT_EQ(fixed(2.675, 2), "2.67");
  EXPECT_EQ(fixed(1e300, 0).size(), 301U);
}

TEST(Number, NonFiniteValuesHaveNames) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(shortest(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(fixed(kInfinity, 2), "Infinity");
  EXPECT_EQ(fixed(-kInfinity, 2), "-Infinity");
}

TEST(Number, AgeShowsTwoUnits) {
  EXPECT_EQ(age(0), "0.0 s");
  EXPECT_EQ(age(399), "0.3 s");
  EXPECT_EQ(age(9'999), "9.9 s");
  EXPECT_EQ(age(10'000), "10 s");
  EXPECT_EQ(age(59'999), "59 s");
  EXPECT_EQ(age(184'000), "3 min 4 s");
  EXPECT_EQ(age(7'500'000), "2 h 5 min");
  EXPECT_EQ(age(273'600'000), "3 d 4 h");
  EXPECT_EQ(age(-5), "0.0 s");
}

}  // namespace
}  // namespace laggard::client
