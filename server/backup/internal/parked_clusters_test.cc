#include "server/backup/internal/parked_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apiserver/stored_object.h"

namespace kintsugi::server {
namespace {

using ::testing::HasSubstr;

const std::string kKey{"logicalclusters.core.kcp.io\0c1\0cluster", 38};

std::shared_ptr<const store::ValueCodec> keys(const std::string& provider) {
  return *store::ValueCodec::parse(
      "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
      "- resources: ['*.*']\n  providers:\n  - " +
      provider + "\n");
}

std::string aesgcm(char letter) {
  return "aesgcm: {keys: [{name: " + std::string(1, letter) + ", secret: " +
         (letter == 'a' ? "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="
                        : "YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI=") +
         "}]}";
}

store::EntryView row_of(const std::string& key, const std::string& value) {
  return {key, value, 1, 2};
}

krm::Json cluster() {
  return *krm::Json::parse(
      R"({"metadata":{"name":"cluster","annotations":{"kcp.io/path":"root:one"}},"spec":{"a":1}})");
}

TEST(ParkedClusters, GR_411_WhatAnotherStoreHasRestsPlainOrEncrypted) {
  for (const auto& codec : {store::ValueCodec::none(), keys("identity: {}"), keys(aesgcm('a'))}) {
    const StoredObjects objects(codec);
    ParkedClusters parked(objects, {{"c1", "shard/two"}});
    const apiserver::StoredStamp stamp{"v1alpha1", 7};
    const std::string value = codec->seal(kKey, apiserver::encode_stored(cluster(), stamp));
    const auto changed = parked.instead_of(row_of(kKey, value));
    ASSERT_TRUE(changed && *changed);
    EXPECT_EQ((*changed)->starts_with(store::kSealedMark), value.starts_with(store::kSealedMark));
    const auto object = objects.read(row_of(kKey, **changed));
    ASSERT_TRUE(object);
    EXPECT_EQ(object->text({"metadata", "annotations", "core.kcp.io/inactive"}), "true");
    EXPECT_EQ(object->text({"metadata", "annotations", "kintsugi.dev/parked"}), "shard/two");
    EXPECT_EQ(object->text({"metadata", "annotations", "kcp.io/path"}), "root:one");
    const std::string plain =
        codec->open(kKey, **changed)->is_sealed ? codec->open(kKey, **changed)->plain : **changed;
    EXPECT_EQ(apiserver::StoredView::parse(plain)->stamp.version, "v1alpha1");
    EXPECT_EQ(parked.parked(), std::vector<std::string>{"c1, which is at shard/two"});
  }
}

TEST(ParkedClusters, GR_411_OtherRowsStayAsTheyAre) {
  ParkedClusters parked(StoredObjects(keys(aesgcm('a'))), {{"c1", "shard/two"}});
  for (const std::string& key :
       {std::string("logicalclusters.core.kcp.io\0c2\0cluster", 38),
        std::string("configmaps\0c1\0default\0a", 23), std::string("kintsugi.merge/slots")}) {
    const auto same = parked.instead_of(row_of(key, "whatever"));
    ASSERT_TRUE(same);
    EXPECT_FALSE(*same);
  }
}

TEST(ParkedClusters, GR_411_WhatNoKeyOpensIsNamed) {
  const std::string value = keys(aesgcm('b'))->seal(kKey, apiserver::encode_stored(cluster(), {}));
  for (const auto& codec : {store::ValueCodec::none(), keys(aesgcm('a'))}) {
    ParkedClusters parked(StoredObjects(codec), {{"c1", "shard/two"}});
    const auto refused = parked.instead_of(row_of(kKey, value));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::kCorrupt);
    EXPECT_THAT(std::string(refused.error().message()),
                HasSubstr("LogicalCluster c1 is at shard/two, too, and cannot be read here: "));
  }
}

}  // namespace
}  // namespace kintsugi::server
