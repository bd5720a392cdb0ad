#include "aggregation/position/continue_token.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

TokenKey key(std::uint8_t id, char first) {
  TokenKey out;
  out.id = id;
  for (int i = 0; i < 32; ++i) {
    out.secret += static_cast<char>(first + i);
  }
  return out;
}

ListQuestion question() {
  return {{"/clusters/*", "apps", "deployments"}, "v1", "", "app=web", "", ""};
}

MergedContinue example() {
  MergedContinue token;
  token.generation = 7;
  token.check = 830422;
  token.slot = 1;
  token.pins = {4711, 15, 982};
  token.member_token = "MEMBERTOKEN";
  return token;
}

constexpr std::string_view kVector =
    "AQMAAAAHDKvWR8OmPM1FdwYAAQADAAAAAAAAEmcAAAAAAAAADwAAAAAAAAPWAAtNRU1CRVJUT0tFTtlboKLmjwC6aehXIC"
    "Zz"
    "2_A";

TEST(MergedContinue, WhenEncoded_T100_IsTheTestVector) {
  EXPECT_EQ(encode_continue(example(), question(), key(3, 0)), kVector);
}

TEST(MergedContinue, WhenDecoded_T29_KnownKeysOpenIt) {
  const auto read = decode_continue(kVector, question(), {key(4, 9), key(3, 0)});
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, example());
  EXPECT_FALSE(decode_continue(kVector, question(), {key(5, 1), key(4, 9)}));
}

TEST(MergedContinue, WhenAnyBitIsFlipped_T25_IsRefused) {
  const std::string bytes = *base64url_decode(kVector);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string broken = bytes;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    const auto read = decode_continue(base64url_encode(broken), question(), {key(3, 0)});
    ASSERT_FALSE(read) << bit;
    EXPECT_EQ(read.error().code(), Errc::kBadRequest);
  }
}

TEST(MergedContinue, WhenCutOrRandom_T25_IsRefused) {
  for (std::size_t length = 0; length < kVector.size(); ++length) {
    EXPECT_FALSE(decode_continue(kVector.substr(0, length), question(), {key(3, 0)}));
  }
  EXPECT_FALSE(decode_continue("!!", question(), {key(3, 0)}));
}

TEST(MergedContinue, WhenTheListIsAnother_T26_IsRefused) {
  ListQuestion other = question();
  other.label_selector = "app=db";
  EXPECT_FALSE(decode_continue(kVector, other, {key(3, 0)}));
  other = question();
  other.ns = "t";
  EXPECT_FALSE(decode_continue(kVector, other, {key(3, 0)}));
  other = question();
  other.scope.resource = "replicasets";
  EXPECT_FALSE(decode_continue(kVector, other, {key(3, 0)}));
  other = question();
  other.scope.route = "/partitions/2hk9/eu/clusters/*";
  EXPECT_FALSE(decode_continue(kVector, other, {key(3, 0)}));
}

SlotHistory history_of(const std::vector<std::string>& uids, const SlotHistory& before = {}) {
  SlotChange change;
  change.present = uids;
  return *before.changed(change, 1);
}

TEST(MergedContinue, WhenShardsChange_T27_T28_OnlyPinnedShardsMatter) {
  const SlotHistory first = history_of({"a", "b", "c"});
  const Scope scope = question().scope;
  MergedContinue token;
  token.generation = 1;
  token.check = cursor_check(scope, first.current().uids, 0);
  token.slot = 1;
  token.pins = {5, 6, 7};
  const CursorCodec added(
      scope, std::make_shared<const SlotHistory>(history_of({"a", "b", "c", "d"}, first)));
  const auto with_d = translate_continue(token, added, {true, true, true, true});
  ASSERT_TRUE(with_d);
  EXPECT_EQ(with_d->pins, (Components{5, 6, 7, 0}));
  EXPECT_EQ(with_d->slot, 1);
  const CursorCodec removed(scope,
                            std::make_shared<const SlotHistory>(history_of({"a", "b"}, first)));
  const auto without_c = translate_continue(token, removed, {true, true, false});
  ASSERT_FALSE(without_c);
  EXPECT_EQ(without_c.error().code(), Errc::kExpired);
  MergedContinue other = token;
  other.check ^= 1;
  EXPECT_FALSE(translate_continue(other, added, {true, true, true, true}));
}

}  // namespace
}  // namespace kintsugi::aggregation
