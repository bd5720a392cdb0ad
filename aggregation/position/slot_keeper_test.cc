// Proxies that share a store have one slot table, one key and one count of starts (GR-201, GR-202).
#include "aggregation/position/slot_keeper.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/position/continue_token.h"
#include "aggregation/position/cursor.h"
#include "aggregation/position/move_keeper.h"
#include "base/strings.h"
#include "net/testing/support.h"
#include "store/memory/memory_store.h"
#include "store/testing/etcd_replica.h"
#include "topology/index.h"

namespace kintsugi::aggregation {
namespace {

using net::testing::run_until;

/// What one proxy has.
struct Proxy {
  explicit Proxy(net::Loop& loop, store::Store& store)
      : keeper(loop, store, publisher, [this](SlotHistoryPtr table, TokenKeys now) {
          slots = std::move(table);
          keys = std::move(now);
        }) {}
  void start() {
    const auto taken = keeper.take_epoch();
    ASSERT_TRUE(taken) << taken.error().to_string();
    epoch = *taken;
    ASSERT_TRUE(keeper.start());
  }
  void sees(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      topology::ShardSpec spec;
      spec.name = name;
      spec.uid = "uid-" + name;
      spec.base_url = "https://" + name;
      index.upsert_shard(spec);
    }
    index.set_shards_listed();
    publisher.publish(index.freeze());
  }
  void loses(const std::string& name) {
    index.delete_shard(name);
    publisher.publish(index.freeze());
  }
  [[nodiscard]] std::uint32_t generation() const { return slots->current().generation; }

  topology::Index index;
  topology::SnapshotPublisher publisher;
  SlotHistoryPtr slots;
  TokenKeys keys;
  std::uint32_t epoch = 0;
  SlotKeeper keeper;
};

class SharedSlotsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (store::etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    static int count = 0;
    const std::string prefix = "/slots/" + std::to_string(++count);
    first_store = std::make_unique<store::Replica>(store::test_etcd().url(), prefix);
    second_store = std::make_unique<store::Replica>(store::test_etcd().url(), prefix);
    one = std::make_unique<Proxy>(loop, **first_store);
    other = std::make_unique<Proxy>(loop, **second_store);
    one->start();
    other->start();
  }
  void TearDown() override {
    one.reset();
    other.reset();
  }
  [[nodiscard]] bool until(const std::function<bool()>& done) { return run_until(loop, done); }
  [[nodiscard]] bool agree(std::size_t shards) {
    return until([&] {
      return one->slots->current() == other->slots->current() &&
             one->slots->current().uids.size() == shards;
    });
  }

  net::Loop loop{"test"};
  std::unique_ptr<store::Replica> first_store, second_store;
  std::unique_ptr<Proxy> one, other;
};

TEST_F(SharedSlotsTest, GR_201_KeysAreTheSameAndStartsAreCountedTogether) {
  EXPECT_EQ(one->epoch, 1U);
  EXPECT_EQ(other->epoch, 2U);
  ASSERT_EQ(one->keys.size(), 1U);
  ASSERT_EQ(other->keys.size(), 1U);
  EXPECT_TRUE(one->keys.front().secret == other->keys.front().secret);
  EXPECT_TRUE(one->keeper.is_new());
  EXPECT_FALSE(other->keeper.is_new());
}

TEST_F(SharedSlotsTest, GR_210_ANewKeyIsKnownToBothBeforeItSigns) {
  one->keeper.promote_after(milliseconds(300));
  std::optional<bool> made;
  const Secret old = other->keys.front().secret;
  one->keeper.rotate_key([&](const Expected<void>& done) { made = done.has_value(); });
  ASSERT_TRUE(until([&] { return made && one->keys.size() == 2 && other->keys.size() == 2; }));
  EXPECT_TRUE(*made);
  EXPECT_TRUE(one->keys.front().secret == old);
  EXPECT_TRUE(other->keys.front().secret == old);
  EXPECT_TRUE(one->keys.back().secret == other->keys.back().secret);
  std::optional<Errc> refused;
  other->keeper.rotate_key([&](const Expected<void>& done) { refused = done.error().code(); });
  EXPECT_EQ(refused, Errc::kConflict);
  ASSERT_TRUE(until(
      [&] { return !(one->keys.front().secret == old) && !(other->keys.front().secret == old); }));
  EXPECT_TRUE(one->keys.front().secret == other->keys.front().secret);
  EXPECT_TRUE(one->keys.back().secret == old) << "accepted for a day";
  Proxy third(loop, **first_store);
  third.start();
  EXPECT_TRUE(third.keys.front().secret == one->keys.front().secret);
  EXPECT_EQ(third.keys.size(), 2U);
}

TEST_F(SharedSlotsTest, GR_203_WithASealNobodyReadsTheKeysInTheStore) {
  const TokenKeys seal = {{7, Secret::copy_of("a seal of thirty-two bytes, no less")}};
  const Secret old = one->keys.front().secret;
  const auto stored = [&](std::string_view key) {
    const auto found = (*first_store)->get(key);
    return found ? std::string(found->value.view()) : "";
  };
  EXPECT_EQ(stored("kintsugi.merge/token-key"), old.view());
  Proxy sealing(loop, **first_store);
  sealing.keeper.seal_with(seal);
  sealing.start();
  EXPECT_TRUE(sealing.keys.front().secret == old);
  EXPECT_TRUE(stored("kintsugi.merge/token-key").starts_with("sealed:"));
  std::optional<bool> made;
  sealing.keeper.rotate_key([&](const Expected<void>& done) { made = done.has_value(); });
  ASSERT_TRUE(until([&] { return made.has_value(); }));
  const std::string ring = stored("kintsugi.merge/token-keys");
  EXPECT_TRUE(ring.starts_with("sealed:"));
  EXPECT_EQ(ring.find(base64url_encode(old.view())), std::string::npos);
  Proxy again(loop, **second_store);
  again.keeper.seal_with(seal);
  again.start();
  EXPECT_EQ(again.keys.size(), 2U);
  Proxy without(loop, **second_store);
  ASSERT_TRUE(without.keeper.take_epoch());
  const auto refused = without.keeper.start();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("store.seal_key_file"), std::string::npos);
}

TEST_F(SharedSlotsTest, GR_202_BothSeeTheSameShardsAtOnce_OneGenerationIsMade) {
  one->sees({"a", "b", "c"});
  other->sees({"a", "b", "c"});
  ASSERT_TRUE(agree(3));
  EXPECT_EQ(one->generation(), other->generation());
  const std::uint32_t generation = one->generation();
  one->sees({"d"});
  ASSERT_TRUE(until([&] { return other->generation() == generation + 1; }));
  other->sees({"d"});
  ASSERT_TRUE(agree(4));
  EXPECT_EQ(one->generation(), generation + 1) << "who hears of it later has nothing to add";
}

TEST_F(SharedSlotsTest, GR_201_CursorsOfSeventyShardsAndTheirTokensHoldAtBoth) {
  std::vector<std::string> names;
  for (int i = 0; i < 70; ++i) {
    names.push_back("s" + std::to_string(i));
  }
  one->sees(names);
  other->sees(names);
  ASSERT_TRUE(agree(70));
  const ListQuestion question{{"/clusters/*", "", "configmaps"}, "v1", "", "", "", ""};
  const CursorCodec here(question.scope, one->slots, std::make_shared<SequenceBook>());
  const CursorCodec there(question.scope, other->slots, std::make_shared<SequenceBook>());
  const std::vector<bool> members(70, true);
  Components components(70, 1'000'000);
  components[69] = 4711;
  const std::string cursor = here.format(components);
  EXPECT_EQ(there.decode(cursor, members).components, components);
  MergedContinue token;
  token.generation = one->generation();
  token.check = here.check();
  token.slot = 69;
  token.pins = components;
  const std::string text = encode_continue(token, question, one->keys.front());
  const auto read = decode_continue(text, question, other->keys);
  ASSERT_TRUE(read);
  const auto next = translate_continue(*read, there, members);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->pins, components);
  EXPECT_EQ(next->slot, 69);
  // One more joins at the other: what the first has given out still holds.
  other->sees({"s70"});
  ASSERT_TRUE(agree(71));
  const CursorCodec later(question.scope, other->slots, std::make_shared<SequenceBook>());
  components.push_back(0);
  EXPECT_EQ(later.decode(cursor, std::vector<bool>(71, true)).components, components);
}

TEST_F(SharedSlotsTest, GR_202_WhoIsBehindTakesNothingAway) {
  one->sees({"a", "b"});
  other->sees({"a", "b"});
  ASSERT_TRUE(agree(2));
  one->sees({"c"});
  ASSERT_TRUE(until([&] { return other->slots->slot_of("uid-c").has_value(); }));
  const std::uint32_t generation = other->generation();
  other->sees({"a"});  // nothing new to it, and no c yet
  one->loses("b");
  ASSERT_TRUE(until([&] { return !other->slots->slot_of("uid-b"); }));
  EXPECT_TRUE(other->slots->slot_of("uid-c"));
  EXPECT_EQ(other->generation(), generation + 1);
}

TEST_F(SharedSlotsTest, GR_202_DifferentChangesAtTheSameTimeAreBothKept) {
  one->sees({"a"});
  other->sees({"a"});
  ASSERT_TRUE(agree(1));
  one->sees({"b"});
  other->sees({"c"});
  ASSERT_TRUE(agree(3));
  EXPECT_TRUE(one->slots->slot_of("uid-b"));
  EXPECT_TRUE(one->slots->slot_of("uid-c"));
}

TEST_F(SharedSlotsTest, AGG_522_AShardThatLostRevisionsIsKnownToBoth) {
  one->sees({"a", "b"});
  other->sees({"a", "b"});
  ASSERT_TRUE(agree(2));
  const std::uint32_t before = one->generation();
  one->keeper.mark_rolled_back("uid-b");
  EXPECT_TRUE(until([&] { return other->slots->rolled_back_since("uid-b", before); }));
  EXPECT_FALSE(other->slots->rolled_back_since("uid-a", before));
}

TEST_F(SharedSlotsTest, AGG_509_OfTwoConfigurationsTheLaterOneStays) {
  one->keeper.fix(7, {"uid-a", "uid-b"});
  one->sees({"a", "b"});
  ASSERT_TRUE(until([&] { return one->generation() == 7; }));
  other->keeper.fix(6, {"uid-a"});
  other->sees({"a"});
  ASSERT_TRUE(until([&] { return other->generation() == 6; }));
  other->sees({"b"});
  other->keeper.fix(8, {"uid-b", "uid-a"});
  ASSERT_TRUE(until([&] { return other->generation() == 8; }));
  const auto stored = (*first_store)->get("kintsugi.merge/slots");
  ASSERT_TRUE(stored);
  EXPECT_EQ(one->generation(), 7U) << "it has the older configuration, and follows that";
  EXPECT_NE(other->slots->find(7), nullptr) << "cursors of both mean something";
}

TEST_F(SharedSlotsTest, GR_201_MovesOfOneAreKnownToTheOther) {
  const Scope maps{"/clusters/*", "", "configmaps"};
  const auto mine = std::make_shared<MoveBook>();
  const auto theirs = std::make_shared<MoveBook>();
  MoveKeeper first(loop, **first_store, mine);
  MoveKeeper second(loop, **second_store, theirs);
  ASSERT_TRUE(first.start());
  ASSERT_TRUE(second.start());
  mine->leave_out("uid-b", maps, "c1", 5);
  theirs->leave_out("uid-b", maps, "c2", 6);
  const MoveBook::LeftOut both{{"c1", 5}, {"c2", 6}};
  ASSERT_TRUE(until([&] {
    return mine->left_out("uid-b", maps) == both && theirs->left_out("uid-b", maps) == both;
  }));
  theirs->note_arrival("uid-b", maps, "c1", {9, 1});
  EXPECT_TRUE(until([&] { return mine->arrival("uid-b", maps).revision == 9; }));
  EXPECT_EQ(mine->left_out("uid-b", maps), (MoveBook::LeftOut{{"c2", 6}}));
}

TEST(SlotKeeper, AGG_509_InAStoreOfItsOwn_GoesOnWhereTheLastProcessWas) {
  net::Loop loop("test");
  store::MemoryStore store;
  Secret key;
  {
    Proxy proxy(loop, store);
    proxy.start();
    EXPECT_EQ(proxy.epoch, 1U);
    EXPECT_TRUE(proxy.keeper.is_new());
    proxy.sees({"a", "b"});
    ASSERT_TRUE(run_until(loop, [&] { return proxy.slots->current().uids.size() == 2; }));
    key = Secret::copy_of(proxy.keys.front().secret.view());
  }
  Proxy again(loop, store);
  again.start();
  EXPECT_EQ(again.epoch, 2U);
  EXPECT_FALSE(again.keeper.is_new());
  EXPECT_EQ(again.slots->current().uids.size(), 2U);
  EXPECT_TRUE(again.keys.front().secret == key);
}

}  // namespace
}  // namespace kintsugi::aggregation
