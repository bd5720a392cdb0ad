#include "store/late_store.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "store/memory/memory_store.h"

namespace kintsugi::store {
namespace {

Op put(std::string key, std::string value) {
  Op op;
  op.key = std::move(key);
  op.value = std::move(value);
  return op;
}

TEST(LateStore, WhileItIsNotOpen_GR205_NothingIsReadOrWritten) {
  LateStore late;
  EXPECT_FALSE(late.is_open());
  EXPECT_TRUE(late.is_shared());
  EXPECT_EQ(late.current(), 0U);
  EXPECT_EQ(late.get("a").error().code(), Errc::kUnavailable);
  EXPECT_EQ(late.range({"a", "", 0}, [](const EntryView&) { return true; }).error().code(),
            Errc::kUnavailable);
  EXPECT_EQ(late.count({"a", "", 0}).error().code(), Errc::kUnavailable);
  EXPECT_EQ(late.changes("a", 0, 10).error().code(), Errc::kUnavailable);
  EXPECT_EQ(late.commit_wait({put("a", "1")}).error().code(), Errc::kUnavailable);
  EXPECT_EQ(late.health().error().code(), Errc::kUnavailable);
  std::optional<Errc> told;
  late.synchronize([&](const Expected<Revision>& done) { told = done.error().code(); });
  EXPECT_EQ(told, Errc::kUnavailable);
}

TEST(LateStore, WhenItIsOpened_GR205_IsThatStore) {
  auto store = std::make_unique<MemoryStore>();
  ASSERT_TRUE(store->commit_wait({put("before", "1")}));
  LateStore late;
  std::vector<std::pair<std::string, Revision>> seen;
  const auto subscription = late.subscribe([&](const EventBatch& batch) {
    for (const Event& event : *batch) {
      seen.emplace_back(event.key, event.revision);
    }
  });
  std::vector<std::string> held, dropped;
  const auto duty = late.compete(
      "status", [&](const std::optional<Fence>& fence) { held.push_back(fence->duty); });
  (void)late.compete("other",
                     [&](const std::optional<Fence>& fence) { dropped.push_back(fence->duty); });
  EXPECT_TRUE(held.empty());
  late.open(std::move(store));
  EXPECT_TRUE(late.is_open());
  EXPECT_EQ(late.get("before")->value.view(), "1");
  const auto made = late.commit_wait({put("after", "2")});
  ASSERT_TRUE(made);
  const std::vector<std::pair<std::string, Revision>> expected = {
      {std::string(LateStore::kNoRow), made->revision - 1}, {"after", made->revision}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(held, std::vector<std::string>{"status"});
  EXPECT_TRUE(dropped.empty()) << "its token had gone";
  std::vector<std::string> later;
  const auto second =
      late.subscribe([&](const EventBatch& batch) { later.push_back(batch->front().key); });
  EXPECT_EQ(second.from, made->revision);
  ASSERT_TRUE(late.commit_wait({put("last", "3")}));
  EXPECT_EQ(later, std::vector<std::string>{"last"});
}

}  // namespace
}  // namespace kintsugi::store
