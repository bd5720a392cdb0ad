#include "workers/delivery/protocol/topics.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

const std::vector<std::string> kBoth{"v1/", "/v1/"};

TEST(DeliveryTopics, CM_5_CM_16_TheTopicsOfTheProtocol) {
  const auto content = parse_delivery_topic("v1/c-1/cc0fe9c4/content", kBoth);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->prefix, "v1/");
  EXPECT_EQ(content->client, "c-1");
  EXPECT_EQ(content->uid, "cc0fe9c4");
  EXPECT_EQ(content->leaf, "content");
  EXPECT_EQ(content_filter("/v1/", "c-1"), "/v1/c-1/+/content");
  EXPECT_EQ(delivery_topic("v1/", "c-1", "u", "status"), "v1/c-1/u/status");
}

TEST(DeliveryTopics, CM_T047_APrefixWithASlashIsAnotherOne) {
  EXPECT_EQ(parse_delivery_topic("/v1/c/u/content", kBoth)->prefix, "/v1/");
  EXPECT_FALSE(parse_delivery_topic("/v1/c/u/content", {"v1/"}));
}

TEST(DeliveryTopics, CM_41_OtherTopicsAreNone) {
  for (const char* const topic :
       {"v1/c//content", "v1//u/content", "v1/c/u", "v1/c/u/spec", "v1/c/u/content/x", "v1/c", "",
        "c/u/content", "v1/c/a+b/content", "v1/c/\x01/content", "v1/c/\xff/content"}) {
    EXPECT_FALSE(parse_delivery_topic(topic, kBoth)) << topic;
  }
  EXPECT_TRUE(is_reserved_uid("_resync"));
  EXPECT_FALSE(is_reserved_uid("u_"));
}

TEST(DeliveryTopics, Prefixes) {
  for (const char* const good : {"", "v1/", "/v1/", "a/b/", "/"}) {
    EXPECT_TRUE(is_topic_prefix(good)) << good;
  }
  for (const char* const bad : {"v1", "+/", "a//", "#/", "//", "a/b"}) {
    EXPECT_FALSE(is_topic_prefix(bad)) << bad;
  }
}

}  // namespace
}  // namespace kintsugi::workers
