#include "client/http/url.h"

#include <gtest/gtest.h>

#include "client/failure.h"

namespace laggard::client {
namespace {

TEST(Endpoint, ReadsWhatPeopleType) {
  const Endpoint full = parse_endpoint("http://node7:18000/");
  EXPECT_EQ(full.host, "node7");
  EXPECT_EQ(full.port, "18000");
  EXPECT_EQ(parse_endpoint("localhost").port, "17601");
  EXPECT_EQ(parse_endpoint("10.0.0.1:1").host, "10.0.0.1");
  const Endpoint six = parse_endpoint("http://[::1]:99");
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.port, "99");
  EXPECT_FALSE(full.tls);
  const Endpoint tls = parse_endpoint("https://node7/");
  EXPECT_TRUE(tls.tls);
  EXPECT_EQ(tls.host, "node7");
  EXPECT_EQ(tls.port, "17601");
}

TEST(Endpoint, TheHostFieldHasTheBracketsOfAnIpv6Address) {
  EXPECT_EQ(host_field(parse_endpoint("http://[::1]:99")), "[::1]:99");
  EXPECT_EQ(host_field(parse_endpoint("localhost")), "localhost:17601");
}

TEST(Endpoint, RefusesTheRest) {
  for (const char* text :
       {"", "http://", "https://", "ftp://host", "host:", "host:70000", "host:1x", "host/path", "[::1",
        "[::1]9", ":80", "a b", "user@host", "tcp://127.0.0.1:17600"}) {
    EXPECT_THROW(parse_endpoint(text), Failure) << text;
  }
}

TEST(PercentEncoded, LeavesOnlyWhatIsSafe) {
  EXPECT_EQ(percent_encoded("a-b_c.d~9"), "a-b_c.d~9");
  EXPECT_EQ(percent_encoded("a/b ?&%"), "a%2Fb%20%3F%26%25");
  EXPECT_EQ(percent_encoded("ü"), "%C3%BC");
}

}  // namespace
}  // namespace laggard::client
