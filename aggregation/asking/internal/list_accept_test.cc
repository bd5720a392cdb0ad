#include "aggregation/asking/internal/list_accept.h"

#include <gtest/gtest.h>

namespace kintsugi::aggregation {
namespace {

TEST(ListAccept, WhenAWatchWantsMetadata_T41_ListsAreAskedForTheListOfIt) {
  EXPECT_EQ(
      list_accept("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;"
                  "v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                  "application/json"),
      "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
      "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
  EXPECT_EQ(list_accept("application/json;v=v1;as=PartialObjectMetadata, */*"),
            "application/json;v=v1;as=PartialObjectMetadataList, */*");
  EXPECT_EQ(list_accept("application/json;v=v1;as=PartialObjectMetadata"),
            "application/json;v=v1;as=PartialObjectMetadataList");
}

TEST(ListAccept, WhenAnythingElseIsWanted_T40_ItStays) {
  for (const char* accept : {"", "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io",
                             "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                             "application/json;as=PartialObjectMetadataX"}) {
    EXPECT_EQ(list_accept(accept), accept);
  }
}

}  // namespace
}  // namespace kintsugi::aggregation
