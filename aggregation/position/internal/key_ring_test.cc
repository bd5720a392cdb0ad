#include "aggregation/position/internal/key_ring.h"

#include <gtest/gtest.h>

namespace kintsugi::aggregation {
namespace {

Secret secret(char c) { return Secret::copy_of(std::string(32, c)); }

std::string ids(const KeyRing& ring) {
  std::string out;
  for (const TokenKey& key : ring.keys()) {
    out += std::to_string(key.id) + " ";
  }
  return out;
}

KeyRing stored(const KeyRing& ring) {
  const auto json = krm::Json::parse(ring.to_json().dump());
  auto read = json ? KeyRing::from_json(*json) : fail(Errc::kCorrupt);
  EXPECT_TRUE(read);
  return read ? *read : KeyRing();
}

TEST(KeyRing, GR_210_ANewKeyIsAcceptedBeforeItSignsAndAnOldOneADayAfterIt) {
  KeyRing ring = KeyRing::of(secret('a'));
  EXPECT_EQ(ids(ring), "1 ");
  EXPECT_FALSE(ring.promote(5));
  ASSERT_TRUE(ring.add_next(secret('b'), 10));
  EXPECT_FALSE(ring.add_next(secret('c'), 11)) << "one at a time";
  ring = stored(ring);
  EXPECT_EQ(ids(ring), "1 2 ") << "the old one signs";
  EXPECT_FALSE(ring.next_drop());
  ASSERT_TRUE(ring.promote(70));
  ring = stored(ring);
  EXPECT_EQ(ids(ring), "2 1 ");
  EXPECT_TRUE(ring.keys().front().secret == secret('b'));
  EXPECT_EQ(ring.next_drop(), 70 + KeyRing::kAcceptedFor);
  EXPECT_FALSE(ring.drop_old(69 + KeyRing::kAcceptedFor));
  EXPECT_TRUE(ring.drop_old(70 + KeyRing::kAcceptedFor));
  EXPECT_EQ(ids(ring), "2 ");
}

TEST(KeyRing, GR_210_ThereAreNotMoreThanEightAndNoIdIsGivenTwice) {
  KeyRing ring = KeyRing::of(secret('a'));
  for (std::size_t i = 1; i < KeyRing::kMost; ++i) {
    ASSERT_TRUE(ring.add_next(secret('b'), 1));
    ASSERT_TRUE(ring.promote(1));
  }
  EXPECT_FALSE(ring.add_next(secret('c'), 1));
  EXPECT_EQ(ids(ring), "8 1 2 3 4 5 6 7 ");
  for (int i = 0; i < 600; ++i) {
    (void)ring.drop_old(KeyRing::kAcceptedFor * (i + 2));
    ASSERT_TRUE(ring.add_next(secret('d'), 1));
    ASSERT_TRUE(ring.promote(KeyRing::kAcceptedFor * (i + 2)));
    const TokenKeys keys = ring.keys();
    ASSERT_EQ(keys.size(), 2U);
    EXPECT_NE(keys[0].id, keys[1].id);
  }
}

TEST(KeyRing, GR_211_WhatLaterProgramsSayStays) {
  auto ring = KeyRing::from_json(*krm::Json::parse(
      R"({"keys":[{"id":1,"secret":"YWFhYWFhYWFhYWFhYWFhYQ","since":1,"state":"signing"}],"moons":7})"));
  ASSERT_TRUE(ring);
  ASSERT_TRUE(ring->add_next(secret('b'), 10));
  ASSERT_TRUE(ring->promote(70));
  EXPECT_EQ(stored(*ring).to_json().at({"moons"})->as_integer(), 7);
}

TEST(KeyRing, WhatIsNoRing_IsRefused) {
  const std::string good =
      R"({"id":1,"secret":"YWFhYWFhYWFhYWFhYWFhYQ","since":1,"state":"signing"})";
  const auto read = [](const std::string& keys) {
    return KeyRing::from_json(*krm::Json::parse("{\"keys\":[" + keys + "]}")).has_value();
  };
  EXPECT_TRUE(read(good));
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read(good + "," + good)) << "two sign";
  EXPECT_FALSE(read(R"({"id":1,"secret":"YQ","since":1,"state":"signing"})"));
  EXPECT_FALSE(read(R"({"id":256,"secret":"YWFhYWFhYWFhYWFhYWFhYQ","since":1,"state":"signing"})"));
  EXPECT_FALSE(read(R"({"id":1,"secret":"YWFhYWFhYWFhYWFhYWFhYQ","since":1,"state":"x"})"));
  EXPECT_FALSE(KeyRing::from_json(*krm::Json::parse("[]")));
}

}  // namespace
}  // namespace kintsugi::aggregation
