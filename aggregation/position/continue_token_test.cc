#include "aggregation/position/continue_token.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "auth/sealed_token.h"
#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

TokenKey key(std::uint8_t id, char first) {
  std::string secret;
  for (int i = 0; i < 32; ++i) {
    secret += static_cast<char>(first + i);
  }
  return {id, Secret(std::move(secret))};
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
/// Bytes that a key of ours has sealed, whatever they say.
Expected<MergedContinue> opened(std::string_view bytes) {
  const ListQuestion asked = question();
  const Scope& scope = asked.scope;
  return decode_continue(
      auth::seal_token(bytes,
                       auth::bound_to({"merged", scope.route, scope.group, asked.version,
                                       scope.resource, asked.ns, asked.label_selector,
                                       asked.field_selector, asked.shard_selector, asked.payer}),
                       key(3, 0)),
      asked, {key(3, 0)});
}

TEST(MergedContinue, WhenAnotherVersionSealedIt_SE203_ItIsRefusedWithItsFault) {
  const std::string head("\0\0\0\7\0\0\1\0\0", 9);  // flags, generation, check, slot 0
  const std::string pin(8, '\1'), no_member("\0\0", 2);
  ASSERT_TRUE(opened(head + std::string("\0\1", 2) + pin + no_member));
  const auto fault = [](std::string_view bytes) {
    const auto read = opened(bytes);
    return read ? std::string("none") : std::string(read.error().message());
  };
  const std::string version = "continue key is not valid: its version is not known";
  const std::string length = "continue key is not valid: its length is wrong";
  EXPECT_EQ(fault(""), version);
  EXPECT_EQ(fault(head), version);
  EXPECT_EQ(fault("\4" + head.substr(1) + std::string("\0\1", 2) + pin + no_member), version);
  EXPECT_EQ(fault(head + std::string("\0\2", 2) + pin + no_member), length);
  EXPECT_EQ(fault(head + std::string("\0\1", 2) + pin + no_member + "x"), length);
  EXPECT_EQ(fault(head + std::string("\0\1", 2) + pin + std::string("\0\5", 2) + "abc"), length);
  EXPECT_EQ(fault(head + std::string("\0\0", 2) + pin + no_member), length);
  std::string beyond = head + std::string("\0\1", 2) + pin + no_member;
  beyond[8] = '\1';  // slot 1 of one
  EXPECT_EQ(fault(beyond), length);
  const std::string sequence = "\2" + head.substr(1);
  EXPECT_EQ(fault(sequence + std::string("\0\1", 2) + pin + no_member), length);
  EXPECT_EQ(fault(sequence + std::string("\0\0", 2) + std::string(8, '\0') + no_member),
            "continue key is not valid: it names no cursor");
  const auto good = opened(sequence + std::string("\0\0", 2) + pin + no_member);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->sequence, 0x0101010101010101U);
}

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
  EXPECT_FALSE(translate_continue(token, added, {true, false, true, true})) << "no member";
  MergedContinue unpinned = token;
  unpinned.pins = {5, 0, 7};
  EXPECT_FALSE(translate_continue(unpinned, added, {true, true, true, true})) << "where it goes on";
  MergedContinue shorter = token;
  shorter.pins.pop_back();
  EXPECT_FALSE(translate_continue(shorter, added, {true, true, true, true}));
}

TEST(MergedContinue, WhenItIsWrittenAsOfAnEarlierTable_T28_ItLeadsThereAndBack) {
  const SlotHistory first = history_of({"a", "b"});
  const Scope scope = question().scope;
  const CursorCodec now(scope,
                        std::make_shared<const SlotHistory>(history_of({"a", "b", "c"}, first)));
  MergedContinue token;
  token.generation = now.history().current().generation;
  token.check = now.check();
  token.slot = 1;
  token.pins = {5, 6, 0};
  EXPECT_EQ(continue_as_of(token.generation, token, now), token);
  EXPECT_EQ(continue_as_of(99, token, now), token);
  const MergedContinue then = continue_as_of(1, token, now);
  EXPECT_EQ(then.generation, 1U);
  EXPECT_EQ(then.check, cursor_check(scope, first.current().uids, 0));
  EXPECT_EQ(then.pins, (Components{5, 6}));
  EXPECT_EQ(then.slot, 1);
  const auto back = translate_continue(then, now, {true, true, true});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->pins, token.pins);
}

TEST(MergedContinue, GR_201_WithAsManyPinsAsCursorsHave_FitsARequestLine) {
  MergedContinue token = example();
  token.pins.assign(kMaxVectorSlots, kFirstSequence - 1);
  const std::string text = encode_continue(token, question(), key(3, 0));
  EXPECT_LT(text.size(), 12'000U);
  const auto read = decode_continue(text, question(), {key(3, 0)});
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, token);
}

TEST(MergedContinue, WhenPinsAreASequence_AGG516_TheyAreFoundAgainOrItIsExpired) {
  const Scope scope = question().scope;
  const auto history = std::make_shared<const SlotHistory>(history_of({"a", "b"}));
  const auto book = std::make_shared<SequenceBook>();
  const CursorCodec codec(scope, history, book, true);
  MergedContinue token;
  token.generation = 1;
  token.check = codec.check();
  token.slot = 1;
  token.sequence = std::stoull(codec.format({5, 6}));
  const std::string text = encode_continue(token, question(), key(3, 0));
  const auto read = decode_continue(text, question(), {key(3, 0)});
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, token);
  const auto found = translate_continue(*read, codec, {true, true});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pins, (Components{5, 6}));
  MergedContinue unknown = token;
  ++unknown.sequence;
  MergedContinue of_another = token;
  of_another.generation = 2;
  for (const MergedContinue& bad : {unknown, of_another}) {
    const auto lost = translate_continue(bad, codec, {true, true});
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().code(), Errc::kExpired);
  }
  EXPECT_FALSE(translate_continue(token, CursorCodec(scope, history), {true, true}));
}

}  // namespace
}  // namespace kintsugi::aggregation
