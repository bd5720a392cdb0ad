#include "workers/messaging/control/internal/address_facts.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

TEST(AddressFacts, S16_ANameThatSomebodyWroteIsTakenIfItCanBeTheAddresssAlone) {
  EXPECT_EQ(recorded_name("s-1/orders", "s-1/orders"), "s-1/orders");
  EXPECT_EQ(recorded_name("cabcdefghi.s-1/orders", "s-1/orders"), "cabcdefghi.s-1/orders");
  EXPECT_EQ(recorded_name("s-2/orders", "s-1/orders"), "");
  EXPECT_EQ(recorded_name("cabcdefghi.s-2/orders", "s-1/orders"), "");
  EXPECT_EQ(recorded_name("x.s-1/orders", "s-1/orders"), "");
  EXPECT_EQ(recorded_name("", "s-1/orders"), "");
}

}  // namespace
}  // namespace kintsugi::workers
