#include "workers/delivery/mqtt/broker_url.h"

#include <gtest/gtest.h>

#include "workers/delivery/mqtt/internal/packet_bound.h"

namespace kintsugi::workers {
namespace {

TEST(BrokerUrl, CM_29_SchemesAndPorts) {
  const auto plain = parse_broker_url("tcp://broker.example");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "broker.example");
  EXPECT_EQ(plain->port, 1883);
  EXPECT_FALSE(plain->tls);
  const auto tls = parse_broker_url("mqtts://[::1]:9000/");
  ASSERT_TRUE(tls);
  EXPECT_EQ(tls->host, "::1");
  EXPECT_EQ(tls->port, 9000);
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(parse_broker_url("ssl://h")->port, 8883);
  EXPECT_TRUE(is_loopback(*parse_broker_url("mqtt://127.0.0.1")));
  EXPECT_FALSE(is_loopback(*plain));
}

TEST(BrokerUrl, OthersAreNone) {
  for (const char* const text :
       {"", "mqtt://", "http://h", "mqtt://h:0", "mqtt://h:x", "mqtt://h:70000", "mqtt://u@h",
        "mqtt://[::1", "mqtt://[::1]x", "mqtt://h/t"}) {
    EXPECT_FALSE(parse_broker_url(text)) << text;
  }
}

std::string packet(std::size_t size) {
  std::string out = "\x30";
  std::size_t rest = size;
  do {
    out += static_cast<char>((rest & 0x7fU) | (rest > 0x7fU ? 0x80U : 0U));
    rest >>= 7U;
  } while (rest > 0);
  return out + std::string(size, 'x');
}

TEST(PacketBound, CM_T038_OneThatIsTooLargeIsSeenByItsLength) {
  const std::string good = packet(0) + packet(127) + packet(128) + packet(1'000);
  for (std::size_t piece = 1; piece < 300; ++piece) {
    PacketBound bound(1'000);
    for (std::size_t at = 0; at < good.size(); at += piece) {
      ASSERT_TRUE(bound.take(std::string_view(good).substr(at, piece)));
    }
    EXPECT_FALSE(bound.take(std::string_view(packet(1'001)).substr(0, 3)));
  }
}

TEST(PacketBound, ALengthThatIsNone) {
  PacketBound bound(1'000'000'000);
  EXPECT_FALSE(bound.take("\x30\xff\xff\xff\xff\xff"));
}

}  // namespace
}  // namespace kintsugi::workers
