#include "base/host_port.h"

#include <gtest/gtest.h>

namespace kintsugi {
namespace {

TEST(HostPort, OnlyAddressesOfIPv6HaveBrackets) {
  EXPECT_EQ(url_host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(url_host("shard-1.edge.svc"), "shard-1.edge.svc");
  EXPECT_EQ(url_host("::1"), "[::1]");
  EXPECT_EQ(host_port("::1", 6443), "[::1]:6443");
  EXPECT_EQ(host_port("localhost", 443), "localhost:443");
}

}  // namespace
}  // namespace kintsugi
