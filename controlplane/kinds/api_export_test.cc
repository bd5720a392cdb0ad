#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

using apiserver::testing::FakeServer;
using krm::Json;

struct Case {
  const char* spec;
  const char* fault;  ///< "": none
};

class ApiExportKind : public ::testing::Test {
 protected:
  void expect(const char* version, const Case& row) {
    Json object = Json::object(
        {{"apiVersion", "apis.kcp.io/" + std::string(version)}, {"kind", "APIExport"}});
    object.make({"metadata", "name"}) = "e";
    object["spec"] = *Json::parse(row.spec);
    const auto answer = server_.send(
        "POST", "/apis/apis.kcp.io/" + std::string(version) + "/apiexports?dryRun=All", object);
    EXPECT_EQ(answer.status(), *row.fault == 0 ? 201 : 422) << row.spec << answer.body();
    EXPECT_NE(answer.json().text({"message"}).find(row.fault), std::string_view::npos)
        << row.spec << answer.body();
  }
  FakeServer server_{{api_export_kind()}, "lc"};
};

TEST_F(ApiExportKind, KK140_WhatStorageAndClaimsMayBe) {
  const Case rows[] = {
      {R"({"resources":[{"name":"a","group":"x.io","schema":"v1.a.x.io"}]})", ""},
      {R"({"resources":[{"group":"x.io","name":"a","schema":"s","storage":{"crd":{},"virtual":{"identityHash":"h",
           "reference":{"kind":"K","name":"n"}}}}]})",
       "spec.resources[0].storage: Invalid value: Exactly one of crd or virtual must be set"},
      {R"({"resources":[{"group":"x.io","name":"a","schema":"s","storage":{}}]})",
       "Found none valid"},
      {R"({"resources":[{"group":"x.io","name":"a","schema":"s","storage":{"virtual":{"identityHash":"h"}}}]})",
       "spec.resources[0].storage.virtual.reference: Required value"},
      {R"({"resources":[{"name":"a","schema":"v1.a.core"}]})",
       "spec.resources[0].group: Required value"},
      {R"({"permissionClaims":[{"resource":"pods/log","verbs":["*"]}]})",
       "should match '^[a-z][-a-z0-9]*[a-z0-9]$'"},
      {R"({"permissionClaims":[{"resource":"pods","verbs":["*"],"identityHash":"a"},
           {"resource":"pods","verbs":["*"],"identityHash":"b"}]})",
       R"(spec.permissionClaims[1]: Duplicate value: {"group":"","resource":"pods"})"},
      {R"({"permissionClaims":[{"resource":"pods","verbs":[]}]})",
       "spec.permissionClaims[0].verbs"},
      {R"({"permissionClaims":[{"resource":"pods","verbs":["*"],
           "defaultSelector":{"matchLabels":{"a":1}}}]})",
       "must be of type string"},
  };
  for (const Case& row : rows) {
    expect("v1alpha2", row);
  }
}

TEST_F(ApiExportKind, KK147_WhatClaimsOfV1alpha1MayBe) {
  constexpr const char* kEither = R"(either "all" or "resourceSelector" must be set)";
  const Case rows[] = {
      {R"({"permissionClaims":[{"resource":"pods","all":true}]})", ""},
      {R"({"permissionClaims":[{"resource":"pods","resourceSelector":[{"name":"a"}]}]})", ""},
      {R"({"permissionClaims":[{"resource":"pods"}]})", kEither},
      {R"({"permissionClaims":[{"resource":"pods","all":false}]})", kEither},
      {R"({"permissionClaims":[{"resource":"pods","resourceSelector":[]}]})", kEither},
      {R"({"permissionClaims":[{"resource":"pods","all":true,"resourceSelector":[{"name":"a"}]}]})",
       kEither},
      {R"({"permissionClaims":[{"resource":"pods","resourceSelector":[{}]}]})",
       "at least one field must be set"},
      {R"({"permissionClaims":[{"resource":"pods","resourceSelector":[{"name":"A"}]}]})",
       "should match '^([a-z0-9][-a-z0-9_.]*)?[a-z0-9]$'"},
      {R"({"permissionClaims":[{"resource":"pods","resourceSelector":[{"namespace":""}]}]})",
       "at least 1 chars long"},
      {R"({"permissionClaims":[{"resource":"pods","all":true},{"resource":"pods","all":true}]})",
       R"(spec.permissionClaims[1]: Duplicate value: {"group":"","resource":"pods"})"},
  };
  for (const Case& row : rows) {
    expect("v1alpha1", row);
  }
}

TEST_F(ApiExportKind, KK147_WhatV1alpha1CannotSayIsJudgedAtItsWrites) {
  const std::string v2 = "/apis/apis.kcp.io/v1alpha2/apiexports";
  const std::string v1 = "/apis/apis.kcp.io/v1alpha1/apiexports/e";
  ASSERT_EQ(
      server_
          .send("POST", v2, *Json::parse(R"({"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExport",
      "metadata":{"name":"e"},"spec":{"permissionClaims":[
        {"resource":"configmaps","verbs":["get"]},
        {"group":"apps","resource":"sets","verbs":["*"],"identityHash":"h"}]}})"))
          .status(),
      201);
  const Json patch = *Json::parse(R"({"metadata":{"labels":{"x":"y"}}})");
  const auto answer =
      server_.send("PATCH", v1, patch, {{"content-type", "application/merge-patch+json"}});
  EXPECT_EQ(answer.status(), 422);
  // The one without a group has no counterpart before: it lacked a key, its default came now.
  EXPECT_EQ(answer.json().text({"message"}),
            R"(APIExport.apis.kcp.io "e" is invalid: spec.permissionClaims[0]: Invalid value: )"
            R"(either "all" or "resourceSelector" must be set)");
}

}  // namespace
}  // namespace kintsugi::controlplane
