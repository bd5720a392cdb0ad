#include "aggregation/documents/openapi_merge.h"

#include <gtest/gtest.h>

#include "krm/protobuf_wire.h"

namespace kintsugi::aggregation {
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

TEST(MergeOpenApi, WhenAM125TheClientCameByAPath_LinksBeginWithIt) {
  Json index = *Json::parse(R"({"paths":{
    "api/v1":{"serverRelativeURL":"/clusters/a/openapi/v3/api/v1?hash=AA"},
    "version":{"serverRelativeURL":"/openapi/v3/version?hash=BB"}}})");
  root_openapi_index(index, "/clusters/root:org");
  EXPECT_EQ(index.text({"paths", "api/v1", "serverRelativeURL"}),
            "/clusters/root:org/openapi/v3/api/v1?hash=AA");
  EXPECT_EQ(index.text({"paths", "version", "serverRelativeURL"}),
            "/clusters/root:org/openapi/v3/version?hash=BB");
}

std::string v2_document(
    std::initializer_list<std::string_view> paths,
    std::initializer_list<std::pair<std::string_view, std::string_view>> kinds) {
  std::string all_paths, definitions, out;
  const auto entry = [](std::string_view name, std::string_view value) {
    std::string bytes;
    krm::put_bytes(bytes, 1, name);
    krm::put_bytes(bytes, 2, value);
    return bytes;
  };
  for (const std::string_view path : paths) {
    krm::put_bytes(all_paths, 2, entry(path, "item"));
  }
  for (const auto& [name, value] : kinds) {
    krm::put_bytes(definitions, 1, entry(name, value));
  }
  krm::put_bytes(out, 1, "2.0");
  krm::put_bytes(out, 2, entry("title", "v1"));
  krm::put_bytes(out, 8, all_paths);
  krm::put_bytes(out, 9, definitions);
  return out;
}

TEST(MergeOpenApi, WhenAM135ProtobufV2IsMerged_HasEveryNameOnce) {
  const std::string theirs =
      v2_document({"/api/v1/", "/apis/apis.kcp.io/"}, {{"ObjectMeta", "a"}, {"ConfigMap", "b"}});
  const std::string ours = v2_document({"/apis/apis.kcp.io/", "/apis/topology.kcp.io/"},
                                       {{"ObjectMeta", "x"}, {"Partition", "c"}});
  const auto merged = merge_openapi_v2_protobuf(theirs, ours);
  ASSERT_TRUE(merged);
  EXPECT_EQ(*merged, v2_document({"/apis/apis.kcp.io/", "/apis/topology.kcp.io/", "/api/v1/"},
                                 {{"ObjectMeta", "a"}, {"ConfigMap", "b"}, {"Partition", "c"}}));
}

TEST(MergeOpenApi, WhenV2IsNoDocument_MergesNothing) {
  const std::string good = v2_document({}, {});
  for (const std::string& bad : {std::string("{}"), std::string(), std::string("\x42\xff", 2),
                                 good.substr(0, good.size() - 1) + "\x7f"}) {
    EXPECT_FALSE(merge_openapi_v2_protobuf(bad, good));
    EXPECT_FALSE(merge_openapi_v2_protobuf(good, bad));
  }
  EXPECT_FALSE(merge_openapi_v2_json("{}", R"({"swagger":"2.0"})"));
}

TEST(MergeOpenApi, WhenAM136JsonV2IsMerged_HasBoth) {
  const auto merged = merge_openapi_v2_json(
      R"({"swagger":"2.0","paths":{"/a/":{}},"definitions":{"A":{"type":"object"}}})",
      R"({"swagger":"2.0","paths":{"/b/":{}},"definitions":{"A":{},"B":{}}})");
  EXPECT_EQ(merged, R"({"definitions":{"A":{"type":"object"},"B":{}},)"
                    R"("paths":{"/a/":{},"/b/":{}},"swagger":"2.0"})");
}

TEST(MergedOpenApiV2Tag, WhenOurPartIsTheSame_GivesTheirsBack) {
  const std::string tag = merged_openapi_v2_tag("SHARD", "OWN");
  EXPECT_EQ(their_openapi_v2_tag(tag, "OWN"), "SHARD");
  EXPECT_EQ(their_openapi_v2_tag(tag, "OTHER"), "");
  EXPECT_EQ(their_openapi_v2_tag("", "OWN"), "");
  EXPECT_EQ(their_openapi_v2_tag("OWN", "OWN"), "");
  EXPECT_EQ(their_openapi_v2_tag("SHARDOWN", "OWN"), "");
  EXPECT_EQ(their_openapi_v2_tag(tag, ""), "");
}

}  // namespace
}  // namespace kintsugi::aggregation
