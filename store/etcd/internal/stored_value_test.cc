#include "store/etcd/internal/stored_value.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::store::etcd {
namespace {

TEST(StoredValue, GR_105_HasTheIdAndASumBehindIt) {
  TransactionIds ids(0x1122334455667788);
  const std::string id = ids.next();
  EXPECT_EQ(id.size(), kIdBytes);
  EXPECT_NE(id, ids.next());
  EXPECT_TRUE(ids.is_own(id));
  EXPECT_FALSE(TransactionIds(1).is_own(id));
  const std::string stored = seal_value("/k", "{}", id);
  EXPECT_EQ(stored.size(), 2 + kTrailerBytes);
  EXPECT_EQ(stored.substr(0, 2), "{}");
  const auto opened = open_value("/k", stored);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->value, "{}");
  EXPECT_EQ(opened->id, id);
}

TEST(StoredValue, GR_105_AnyOtherByteOrKeyIsFoundOut) {
  TransactionIds ids(1);
  const std::string stored = seal_value("/k", "value", ids.next());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::string other = stored;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(open_value("/k", other)) << i;
    EXPECT_FALSE(open_value("/k", stored.substr(0, i))) << i;
  }
  EXPECT_FALSE(open_value("/l", stored));
}

TEST(StoredValue, DeletionsAreReadBack) {
  const std::string value = encode_deletions({{"a", "1"}, {"b", ""}});
  const auto back = decode_deletions(value);
  ASSERT_TRUE(back);
  ASSERT_EQ(back->size(), 2U);
  EXPECT_EQ((*back)[0].second, "1");
  EXPECT_EQ((*back)[1].first, "b");
  EXPECT_TRUE(decode_deletions("")->empty());
  EXPECT_FALSE(decode_deletions("\x0a\x09"));
}

}  // namespace
}  // namespace kintsugi::store::etcd
