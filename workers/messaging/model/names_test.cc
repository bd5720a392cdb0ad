#include "workers/messaging/model/names.h"

#include <gtest/gtest.h>

#include "krm/names.h"

namespace kintsugi::workers {
namespace {

TEST(MessagingNames, MD14_SpaceIdIsNameAndHash) {
  EXPECT_EQ(hash_letters("", 10), "4oymiquy7q");  // RFC 4648 of e3b0c442 98fc1c14
  EXPECT_EQ(hash_letters("abc", 51).size(), 51U);
  const std::string id = space_id("c1", "ns1", "myspace");
  EXPECT_EQ(id, "myspace-" + hash_letters("c1|ns1|myspace", 13));
  EXPECT_NE(id, space_id("c2", "ns1", "myspace"));  // MS-025
  EXPECT_NE(id, space_id("c1", "ns2", "myspace"));
  for (const std::string& name : {std::string("a"), std::string(253, 'n'), std::string("a.b.c"),
                                  std::string(), std::string("-x"), std::string(40, '.')}) {
    const std::string made = space_id("c", "n", name);
    EXPECT_LE(made.size(), 54U);
    EXPECT_TRUE(krm::check_dns1123_label(made).empty()) << made;
  }
}

TEST(MessagingNames, S53_MS043_EntityNamesAreShortWhateverTheyAreOf) {
  const std::string longest(253, 'n');
  EXPECT_EQ(owner_name("shard-1"), "shard-1");
  EXPECT_EQ(owner_name(std::string(41, 'a')).size(), 13U);
  EXPECT_EQ(owner_name("Shard"), "x" + hash_letters("Shard", 12));
  EXPECT_EQ(owner_name("a.b")[0], 'x');
  EXPECT_EQ(owner_name("").size(), 13U);
  for (const std::string& shard : {std::string(40, 'o'), longest}) {
    const std::string name =
        entity_name(owner_name(shard), EntityKind::kAddress,
                    entity_identity({longest, longest, longest, "", 0, 0}), longest, "out");
    EXPECT_LE(name.size(), 76U);
    static_assert(kMaxEntityName <= kMaxRouterName && kMaxRouterName < 512);
  }
  EXPECT_EQ(entity_name("o", EntityKind::kAutoLink, "uid", "b1", "in"),
            "ktg.o.al." + hash_letters("uid|b1|in", 26));
  EXPECT_NE(entity_name("o", EntityKind::kAutoLink, "uid", "b1", "in"),
            entity_name("o", EntityKind::kAutoLink, "uid", "b1", "out"));
  EXPECT_EQ(entity_identity({"c", "n", "m", "u", 0, 0}), "u");
}

TEST(MessagingNames, S53_MS064_OnlyOurPrefixIsOurs) {
  EXPECT_TRUE(is_own_entity("a", entity_name("a", EntityKind::kVhost, "u")));
  EXPECT_FALSE(is_own_entity("a", entity_name("a-b", EntityKind::kVhost, "u")));
  EXPECT_FALSE(is_own_entity("a-b", entity_name("a", EntityKind::kVhost, "u")));
  EXPECT_FALSE(is_own_entity("a", "ktg.a"));
  EXPECT_FALSE(is_own_entity("a", "autoLink/1"));
}

TEST(MessagingNames, MH9_MS042_DotAndSlashAreOne) {
  EXPECT_EQ(conflict_key("s-1/a.b"), conflict_key("s-1/a/b"));
  EXPECT_NE(conflict_key("s-1/ab"), conflict_key("s-1/a/b"));
}

TEST(MessagingNames, S83_BrokerNamesTellTheirClass) {
  const std::string name = settings_class_name("uid", "");
  EXPECT_EQ(name.size(), 10U);
  EXPECT_NE(name, settings_class_name("uid", "space"));
  const std::string q = qualified_address(space_id("c", "n", "cabcdefghi"), "q.1");
  EXPECT_EQ(class_of(broker_name(name, q)), name);
  EXPECT_EQ(class_of(broker_name("", q)), "");
  EXPECT_EQ(class_of("cabcdefgh1.x"), "");  // 1 is no letter of base32
  EXPECT_EQ(full_queue_name("t", "s"), "t::s");
}

TEST(MessagingNames, MS_064_TheOwnerIsTheShardWhereverTheProxyIs) {
  for (const std::string host : {"https://proxy:6443", "https://10.0.0.1", "https://[::1]:1"}) {
    EXPECT_EQ(shard_of_endpoint(host + "/shards/eu-1/services/apiexport/root/x"), "eu-1");
  }
  const std::string own = "https://shard-1:6443/services/apiexport/root/shards/x";
  EXPECT_EQ(shard_of_endpoint(own), own);
  EXPECT_EQ(shard_of_endpoint("https://shards/a"), "https://shards/a");
  EXPECT_EQ(shard_of_endpoint("https://proxy/shards//a"), "https://proxy/shards//a");
  EXPECT_EQ(owner_name(shard_of_endpoint("https://proxy/shards/root/services")), "root");
}

}  // namespace
}  // namespace kintsugi::workers
