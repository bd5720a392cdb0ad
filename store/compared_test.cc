#include "store/compared.h"

#include <gtest/gtest.h>

#include "store/memory/memory_store.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

TEST(Compared, GR_202_WhoIsSecondGetsWhatTheFirstHasWritten) {
  MemoryStore store;
  EXPECT_EQ(get_or_none(store, "a")->modified, 0U);
  EXPECT_EQ(*get_or_put(store, "a", "first"), "first");
  EXPECT_EQ(*get_or_put(store, "a", "second"), "first");
  const Revision at = get_or_none(store, "a")->modified;
  EXPECT_TRUE(*put_compared(store, "a", "third", at));
  EXPECT_FALSE(*put_compared(store, "a", "fourth", at));
  EXPECT_EQ(get_or_none(store, "a")->value.view(), "third");
}

TEST(Compared, GR_202_OverEtcd_BothHaveTheSame) {
  if (etcd_program().empty()) {
    GTEST_SKIP() << "no etcd on this machine";
  }
  const Replica one(test_etcd().url(), "/compared");
  const Replica other(test_etcd().url(), "/compared");
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    const auto mine = get_or_put(*one, key, "one");
    const auto theirs = get_or_put(*other, key, "other");
    ASSERT_TRUE(mine && theirs);
    EXPECT_EQ(*theirs, "one") << "nobody waits for the mirror: the write is refused and read";
  }
}

}  // namespace
}  // namespace kintsugi::store
