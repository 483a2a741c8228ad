#include "daemon/app/descriptors.h"

#include <gtest/gtest.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

namespace laggard::app {
namespace {

TEST(Descriptors, WithManyBothPortsHaveTheirFullNumber) {
  const ConnectionShares shares = share_descriptors(20'000);
  EXPECT_EQ(shares.agents, limits::kMaxAgentConnections);
  EXPECT_EQ(shares.http, limits::kMaxHttpConnections);
}

TEST(Descriptors, FewAreSharedAndFilesComeFirst) {
  for (const std::size_t descriptors : {64U, 100U, 256U, 1024U, 16'640U}) {
    const ConnectionShares shares = share_descriptors(descriptors);
    EXPECT_LE(shares.agents + shares.http + limits::kReservedDescriptors, descriptors);
    EXPECT_GE(shares.http, 4U);
    EXPECT_GE(shares.agents, 12U);
  }
}

TEST(Descriptors, TooFewAreAnError) { EXPECT_THROW(share_descriptors(63), Error); }

}  // namespace
}  // namespace laggard::app
