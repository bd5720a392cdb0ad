#include "proxy/openapi_merge.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

using krm::Json;

TEST(SplitOpenApiTarget, WhenGivenTargets_TellsIndexDocumentAndHash) {
  const auto index = split_openapi_target("/clusters/a/openapi/v3?timeout=32s");
  ASSERT_TRUE(index);
  EXPECT_TRUE(index->is_index);
  EXPECT_FALSE(index->hash);
  EXPECT_EQ(index->path, "/clusters/a/openapi/v3");
  const std::string hash(128, 'A');
  const auto document =
      split_openapi_target("/clusters/a/openapi/v3/apis/apis.kcp.io/v1alpha1?hash=" + hash);
  ASSERT_TRUE(document);
  EXPECT_FALSE(document->is_index);
  EXPECT_EQ(document->hash, hash);
  EXPECT_FALSE(split_openapi_target("/clusters/a/apis/apis.kcp.io?x=/openapi/v3"));
  EXPECT_FALSE(split_openapi_target("/clusters/a/apis/apis.kcp.io/openapi/v3"));
}

TEST(MergeOpenApi, WhenBothHaveAnIndex_AddsTheOwnGroupAndRenamesWhatIsMerged) {
  Json theirs = *Json::parse(R"({"paths":{
    "api/v1":{"serverRelativeURL":"/clusters/a/openapi/v3/api/v1?hash=AA"},
    "apis/apis.kcp.io/v1alpha1":{"serverRelativeURL":"/clusters/a/openapi/v3/apis/apis.kcp.io/v1alpha1?hash=BB"}}})");
  const Json ours = *Json::parse(R"({"paths":{
    "version":{"serverRelativeURL":"/clusters/a/openapi/v3/version?hash=CC"},
    "apis/topology.kcp.io":{"serverRelativeURL":"/t?hash=DD"},
    "apis/topology.kcp.iox":{"serverRelativeURL":"/x?hash=DD"},
    "apis/topology.kcp.io/v1alpha1":{"serverRelativeURL":"/t/v1alpha1?hash=EE"},
    "apis/apis.kcp.io/v1alpha1":{"serverRelativeURL":"/elsewhere?hash=FF"}}})");
  ASSERT_TRUE(merge_openapi_index(theirs, ours));
  EXPECT_EQ(theirs.find("paths")->size(), 4U);
  EXPECT_EQ(theirs.text({"paths", "api/v1", "serverRelativeURL"}),
            "/clusters/a/openapi/v3/api/v1?hash=AA");
  EXPECT_EQ(theirs.text({"paths", "apis/topology.kcp.io/v1alpha1", "serverRelativeURL"}),
            "/t/v1alpha1?hash=EE");
  EXPECT_EQ(
      theirs.text({"paths", kSharedOpenApiKey, "serverRelativeURL"}),
      "/clusters/a/openapi/v3/apis/apis.kcp.io/v1alpha1?hash=" + merged_openapi_hash("BB", "FF"));
}

TEST(MergeOpenApi, WhenBothHaveADocument_UnitesPathsAndSchemas) {
  Json theirs = *Json::parse(
      R"({"openapi":"3.0.0","paths":{"/a":1,"/b":1},"components":{"schemas":{"A":1}}})");
  const Json ours = *Json::parse(
      R"({"openapi":"3.0.0","paths":{"/b":2,"/c":2},"components":{"schemas":{"C":2}}})");
  ASSERT_TRUE(merge_openapi_document(theirs, ours));
  EXPECT_EQ(theirs.dump(), R"({"components":{"schemas":{"A":1,"C":2}},"openapi":"3.0.0",)"
                           R"("paths":{"/a":1,"/b":2,"/c":2}})");
}

TEST(MergeOpenApi, WhenOneIsSomethingElse_Refuses) {
  Json index = *Json::parse(R"({"paths":{}})");
  Json document = *Json::parse(R"({"openapi":"3.0.0","paths":{}})");
  EXPECT_FALSE(merge_openapi_index(index, document));
  EXPECT_FALSE(merge_openapi_document(document, index));
  EXPECT_FALSE(merge_openapi_index(index, Json()));
  EXPECT_EQ(index.dump(), R"({"paths":{}})");
}

}  // namespace
}  // namespace kintsugi::proxy
