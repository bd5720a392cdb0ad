#include "apiserver/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kintsugi::apiserver {
namespace {

TEST(Keys, WhenSorted_OrderIsClusterNamespaceName) {
  const std::vector<std::string> keys = {
      *object_key("configmaps", "a", "n", "x"),      *object_key("configmaps", "a", "n", "x-1"),
      *object_key("configmaps", "a", "n", "x.1"),    *object_key("configmaps", "a", "n-a", "a"),
      *object_key("configmaps", "a-b", "a", "a"),    *object_key("configmaps", "b", "a", "a"),
      *object_key("configmaps.ex.io", "a", "a", "a")};
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
}

TEST(Keys, WhenTakenApart_TellsItsParts) {
  const std::string key = *object_key("widgets.ex.io", "lc", "t1", "w");
  const std::optional<KeyParts> parts = parse_key(key);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->resource, "widgets.ex.io");
  EXPECT_EQ(parts->cluster, "lc");
  EXPECT_EQ(parts->ns, "t1");
  EXPECT_EQ(parts->name, "w");
  const std::string flat = *object_key("namespaces", "", "", "t1");
  ASSERT_TRUE(parse_key(flat));
  EXPECT_EQ(parse_key(flat)->ns, "");
  EXPECT_EQ(parse_key(flat)->name, "t1");
  EXPECT_FALSE(parse_key("other"));
  EXPECT_FALSE(parse_key(""));
}

TEST(Keys, WhenCollectionsAreAskedFor_PrefixesHoldExactlyTheirKeys) {
  const std::string key = *object_key("configmaps", "lc", "t1", "a");
  EXPECT_TRUE(key.starts_with(collection_prefix("configmaps", "*", "")));
  EXPECT_TRUE(key.starts_with(collection_prefix("configmaps", "lc", "")));
  EXPECT_TRUE(key.starts_with(collection_prefix("configmaps", "lc", "t1")));
  EXPECT_FALSE(key.starts_with(collection_prefix("configmaps", "lc", "t")));
  EXPECT_FALSE(key.starts_with(collection_prefix("configmap", "*", "")));
}

TEST(Keys, WhenNamesAreTooLong_KeysStayShortAndDistinct) {
  const std::string group(253, 'g');
  const std::string resource = std::string(63, 'r') + "." + group;
  const std::string lc(63, 'c');
  const std::string ns(63, 'n');
  const std::string a = *object_key(resource, lc, ns, std::string(252, 'x') + "a");
  const std::string b = *object_key(resource, lc, ns, std::string(252, 'x') + "b");
  EXPECT_LE(a.size(), kMaxKeyBytes);
  EXPECT_NE(a, b);
  EXPECT_TRUE(parse_key(a)->name_is_cut);
  EXPECT_FALSE(parse_key(*object_key("configmaps", "lc", "n", "a"))->name_is_cut);
}

TEST(Keys, WhenAResourceHasAnIdentity_NameIsWrittenAndRead) {
  EXPECT_EQ(stored_resource("ex.io", "widgets:0a1b"), "widgets.ex.io:0a1b");
  EXPECT_EQ(stored_resource("", "configmaps"), "configmaps");
  const StoredResource bound = parse_stored_resource("widgets.ex.io:0a1b");
  EXPECT_EQ(bound.plural, "widgets");
  EXPECT_EQ(bound.group, "ex.io");
  EXPECT_EQ(bound.identity, "0a1b");
  const StoredResource plain = parse_stored_resource("configmaps");
  EXPECT_EQ(plain.plural, "configmaps");
  EXPECT_EQ(plain.group, "");
  EXPECT_EQ(plain.identity, "");
}

TEST(Keys, WhenAPartHoldsNul_ThereIsNoKey) {
  EXPECT_FALSE(object_key("configmaps", "lc", "t1", std::string_view("a\0b", 3)));
  EXPECT_FALSE(object_key("configmaps", "lc", "t1", ""));
}

TEST(Keys, WhenPositionsAreWrittenAndRead_KeysComeBack) {
  const std::string key = *object_key("configmaps", "lc", "t1", "a");
  EXPECT_EQ(position_of(key), "lc/t1/a");
  EXPECT_EQ(key_at("configmaps", "lc/t1/a"), key);
  EXPECT_FALSE(key_at("configmaps", ""));
  EXPECT_FALSE(key_at("configmaps", "../a"));
}

TEST(Keys, WhenAnyIdentityIsMeant_AM479_OnePrefixHoldsAll) {
  const std::string any = resource_prefix("widgets.ex.io:*");
  EXPECT_EQ(any, "widgets.ex.io:");
  EXPECT_EQ(collection_prefix("widgets.ex.io:*", "*", ""), any);
  const std::string key = *object_key("widgets.ex.io:0a1b", "c1", "n", "w");
  EXPECT_TRUE(key.starts_with(any));
  EXPECT_FALSE(object_key("widgets.ex.io", "c1", "n", "w")->starts_with(any));
  EXPECT_EQ(position_in("widgets.ex.io:*", key), "0a1b/c1/n/w");
  EXPECT_EQ(key_at("widgets.ex.io:*", "0a1b/c1/n/w"), key);
  EXPECT_EQ(position_in("widgets.ex.io:0a1b", key), position_of(key));
}

}  // namespace
}  // namespace kintsugi::apiserver
