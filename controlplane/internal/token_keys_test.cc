#include "controlplane/internal/token_keys.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

#include "store/memory/memory_store.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::int64_t kDay = 24 * 3'600;

TEST(TokenKeys, SE166_TheyOutliveARestart_AndAreMadeAnewEveryWeek) {
  store::MemoryStore store;
  const auto first = read_token_keys(store, 1'000);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->size(), 1U);
  EXPECT_EQ(first->front().secret.size(), 32U);
  const auto again = read_token_keys(store, 1'000 + 6 * kDay);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->front().secret, first->front().secret);
  const auto second = read_token_keys(store, 1'000 + 7 * kDay);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->size(), 2U);
  EXPECT_NE(second->front().id, first->front().id);
  EXPECT_EQ(second->back().secret, first->front().secret) << "its tokens still open";
  const auto third = read_token_keys(store, 1'000 + 20 * kDay);
  ASSERT_TRUE(third);
  ASSERT_EQ(third->size(), 2U);
  EXPECT_EQ(third->back().secret, second->front().secret);
}

TEST(TokenKeys, GR_301_OfSeveralThatStartAtOnce_OneMakesThem) {
  for (int round = 0; round < 50; ++round) {
    store::MemoryStore store;
    const auto read = [&store] { return read_token_keys(store, 1'000); };
    auto other = std::async(std::launch::async, read);
    const auto one = read();
    const auto two = other.get();
    ASSERT_TRUE(one && two);
    EXPECT_EQ(one->front().secret, two->front().secret);
    const auto known = known_token_keys(store);
    ASSERT_TRUE(known);
    EXPECT_EQ(known->front().secret, one->front().secret);
  }
}

TEST(TokenKeys, SE166_WhatCannotBeRead_IsNotWrittenOver) {
  for (const char* text : {"", "{}", "null", R"({"keys":[]})", R"({"keys":[{"id":1}]})",
                           R"({"keys":[{"id":1,"made":2,"secret":"short"}]})"}) {
    store::MemoryStore store;
    ASSERT_TRUE(store.commit_wait(
        {{store::EventType::kPut, "kintsugi.shard/token-keys", text, std::nullopt}}));
    const auto keys = read_token_keys(store, 1'000);
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(keys.error().code(), Errc::kCorrupt);
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
