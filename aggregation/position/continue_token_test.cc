#include "aggregation/position/continue_token.h"

#include <gtest/gtest.h>

#include <functional>

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

const std::string kToken = encode_continue(example(), question(), key(3, 0));

TEST(MergedContinue, WhenEncoded_T100_SaysNothingAndIsNeverTheSame) {
  const std::string bytes = *base64url_decode(kToken);
  EXPECT_EQ(bytes.substr(0, 2), "\x02\x03") << "version and key";
  for (const char* word : {"MEMBER", "deployments", "app=web"}) {
    EXPECT_EQ(bytes.find(word), std::string::npos) << word;
  }
  EXPECT_NE(encode_continue(example(), question(), key(3, 0)), kToken);
  EXPECT_LT(kToken.size(), 120U);
}

TEST(MergedContinue, WhenDecoded_T29_KnownKeysOpenIt) {
  const auto read = decode_continue(kToken, question(), {key(4, 9), key(3, 0)});
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, example());
}

TEST(MergedContinue, SE166_WhenItsKeyIsGone_IsExpired) {
  const auto read = decode_continue(kToken, question(), {key(5, 1), key(4, 9)});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::kExpired);
  const auto forged = decode_continue(kToken, question(), {key(3, 1)});
  ASSERT_FALSE(forged);
  EXPECT_EQ(forged.error().code(), Errc::kBadRequest);
}

TEST(MergedContinue, WhenAnyBitIsFlipped_T25_IsRefused) {
  const std::string bytes = *base64url_decode(kToken);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string broken = bytes;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    const auto read = decode_continue(base64url_encode(broken), question(), {key(3, 0)});
    ASSERT_FALSE(read) << bit;
    const bool of_key = bit / 8 == 1;
    EXPECT_EQ(read.error().code(), of_key ? Errc::kExpired : Errc::kBadRequest);
  }
}

// V12; and the list of another query below.
TEST(MergedContinue, WhenCutOrRandom_T25_IsRefused) {
  for (std::size_t length = 0; length < kToken.size(); ++length) {
    EXPECT_FALSE(decode_continue(kToken.substr(0, length), question(), {key(3, 0)}));
  }
  EXPECT_FALSE(decode_continue("!!", question(), {key(3, 0)}));
}

TEST(MergedContinue, SE166_WhenTheListOrItsCallerIsAnother_T26_IsRefused) {
  const auto refused = [](const std::function<void(ListQuestion&)>& change) {
    ListQuestion other = question();
    change(other);
    const auto read = decode_continue(kToken, other, {key(3, 0)});
    return !read && read.error().code() == Errc::kBadRequest;
  };
  EXPECT_TRUE(refused([](ListQuestion& q) { q.label_selector = "app=db"; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.label_selector = ""; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.field_selector = "metadata.name=x"; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.shard_selector = "region=eu"; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.ns = "t"; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.version = "v2"; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.scope.resource = "replicasets"; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.scope.route = "/partitions/2hk9/eu/clusters/*"; }));
  EXPECT_TRUE(refused([](ListQuestion& q) { q.payer = "user eve"; }));
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
