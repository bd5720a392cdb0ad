#include "net/internal/dialer.h"

#include <gtest/gtest.h>

namespace kintsugi::net {
namespace {

TEST(Localhost, IsThisMachineWhateverAResolverSays) {
  for (const char* name :
       {"localhost", "LocalHost", "localhost.", "a.localhost", "a.b.LOCALHOST."}) {
    EXPECT_TRUE(is_localhost(name)) << name;
    const auto found = look_up_now(name, 443, false);
    ASSERT_TRUE(found.has_value()) << name;
    ASSERT_EQ(found->size(), 2U) << name;
    EXPECT_EQ(reinterpret_cast<const sockaddr_in&>((*found)[0].storage).sin_addr.s_addr,
              htonl(INADDR_LOOPBACK));
    EXPECT_TRUE(IN6_IS_ADDR_LOOPBACK(
        &reinterpret_cast<const sockaddr_in6&>((*found)[1].storage).sin6_addr));
  }
  for (const char* name :
       {"", ".", "localhost.ex.io", "notlocalhost", "localhost..", "local.host"}) {
    EXPECT_FALSE(is_localhost(name)) << name;
  }
}

}  // namespace
}  // namespace kintsugi::net
