#include "aggregation/documents/document_request.h"

#include <gtest/gtest.h>

namespace kintsugi::aggregation {
namespace {

using Kind = DocumentRequest::Kind;

constexpr const char* kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

TEST(DocumentRequest, WhenAPathIsGiven_KnowsTheDocument) {
  EXPECT_EQ(read_document_request("/api", "").kind, Kind::kGroups);
  EXPECT_EQ(read_document_request("/apis/?timeout=32s", "").path, "/apis");
  EXPECT_EQ(read_document_request("/api/v1", "").kind, Kind::kDiscovery);
  EXPECT_EQ(read_document_request("/apis/apps/v1", "").kind, Kind::kDiscovery);
  EXPECT_EQ(read_document_request("/openapi/v3/", "").kind, Kind::kOpenApiIndex);
  EXPECT_EQ(read_document_request("/openapi/v2", "").kind, Kind::kOpenApiV2);
  EXPECT_EQ(read_document_request("/version", "").kind, Kind::kVersion);
  EXPECT_EQ(read_document_request("/", "").kind, Kind::kOther);
  EXPECT_EQ(read_document_request("", "").kind, Kind::kOther);
  EXPECT_EQ(read_document_request("/healthz", "").kind, Kind::kOther);
  const DocumentRequest document = read_document_request("/openapi/v3/apis/apps/v1?hash=AB", "");
  EXPECT_EQ(document.kind, Kind::kOpenApiDocument);
  EXPECT_EQ(document.key, "apis/apps/v1");
  EXPECT_EQ(document.hash, "AB");
}

TEST(DocumentRequest, AGG1601_WhenDiscoveryIsAccepted_TakesTheFirstForm) {
  const DocumentRequest both =
      read_document_request("/apis", std::string(kAggregated) + ",application/json");
  EXPECT_TRUE(both.aggregated);
  EXPECT_EQ(both.type, kAggregated);
  EXPECT_EQ(both.plain_type, "application/json");
  EXPECT_FALSE(
      read_document_request("/apis", std::string("application/json,") + kAggregated).aggregated);
  EXPECT_FALSE(read_document_request("/apis", std::string(kAggregated) + ";q=0.5, application/json")
                   .aggregated);
  EXPECT_FALSE(read_document_request("/apis/apps/v1", kAggregated).acceptable);
  const DocumentRequest only = read_document_request("/api", kAggregated);
  EXPECT_TRUE(only.aggregated);
  EXPECT_EQ(only.plain_type, "");
  EXPECT_EQ(read_document_request("/api/v1", "application/vnd.kubernetes.protobuf, */*").type,
            "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(read_document_request("/api/v1", "text/html, application/yaml").type,
            "application/yaml");
}

TEST(DocumentRequest, T16_WhenNothingIsAcceptable_SaysSo) {
  for (const char* path :
       {"/api", "/apis/apps/v1", "/openapi/v3", "/openapi/v2", "/openapi/v3/api"}) {
    EXPECT_FALSE(read_document_request(path, "image/png").acceptable) << path;
    EXPECT_FALSE(read_document_request(path, "application/json;q=0").acceptable) << path;
    EXPECT_FALSE(read_document_request(path, ",;,=;q").acceptable) << path;
    EXPECT_TRUE(read_document_request(path, "image/png, */*").acceptable) << path;
    EXPECT_TRUE(read_document_request(path, "").acceptable) << path;
  }
  EXPECT_EQ(read_document_request("/openapi/v2",
                                  "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
                .accept,
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf");
}

TEST(DocumentRequest, AGG1603_WhenTagsAreCompared_ListsAndWeakOnesCount) {
  EXPECT_TRUE(names_tag("\"a\"", "a"));
  EXPECT_TRUE(names_tag("\"b\", W/\"a\"", "a"));
  EXPECT_TRUE(names_tag("*", "a"));
  EXPECT_FALSE(names_tag("\"ab\"", "a"));
  EXPECT_FALSE(names_tag("a", "a"));
  EXPECT_FALSE(names_tag("", "a"));
}

TEST(DocumentRequest, AGG1605_WhenServersAreCompared_NumbersCount) {
  const auto version = [](std::string_view text) {
    return R"({"gitVersion":")" + std::string(text) + "\"}";
  };
  EXPECT_TRUE(is_older_server(version("v1.9.3"), version("v1.10.0")));
  EXPECT_FALSE(is_older_server(version("v1.36.0+kcp-v0.30.1"), version("v1.36.0")));
  EXPECT_TRUE(is_older_server(version("v1.36.1"), version("v1.36.2-rc.1")));
  EXPECT_TRUE(is_older_server("no json", version("v1.0.0")));
  EXPECT_FALSE(is_older_server(version(""), "{}"));
}

}  // namespace
}  // namespace kintsugi::aggregation
