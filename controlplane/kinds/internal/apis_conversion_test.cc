#include "controlplane/kinds/internal/apis_conversion.h"

#include <gtest/gtest.h>

#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

Json parse(std::string_view text) {
  Expected<Json> out = Json::parse(text);
  EXPECT_TRUE(out) << text;
  return out ? std::move(*out) : Json();
}

TEST(ApisConversion, WhenAnExportIsReadAndWrittenInV1alpha1_AM497_NothingIsLost) {
  const Json stored = parse(R"json({"metadata":{"name":"e"},"spec":{
      "resources":[
        {"group":"ex.io","name":"widgets","schema":"v1.widgets.ex.io","storage":{"crd":{}}},
        {"group":"ex.io","name":"views","schema":"v1.views.ex.io","storage":{"virtual":{}}}],
      "permissionClaims":[
        {"group":"","identityHash":"","resource":"configmaps","verbs":["get","list"]},
        {"group":"ex.io","identityHash":"0a","resource":"gears","verbs":["*"]}]}})json");
  Json object = stored;
  export_from_storage(object);
  EXPECT_EQ(object.at({"spec", "latestResourceSchemas"})->dump(), R"(["v1.widgets.ex.io"])");
  EXPECT_EQ(
      object.at({"spec", "permissionClaims"})->dump(),
      R"([{"resource":"configmaps"},{"group":"ex.io","identityHash":"0a","resource":"gears"}])");
  export_to_storage(object);
  EXPECT_EQ(object.at({"spec", "resources"})->dump(), stored.at({"spec", "resources"})->dump());
  EXPECT_EQ(object.at({"spec", "permissionClaims"})->dump(),
            stored.at({"spec", "permissionClaims"})->dump());
}

TEST(ApisConversion, WhenWhatIsKeptIsWritten_KK147_ItIsAsKcpsStructsAre) {
  Json object = parse(R"json({"metadata":{"name":"e"},"spec":{
      "resources":[{"group":"","name":"views","schema":"v1.views.core","storage":{"virtual":{
        "identityHash":"h","reference":{"apiGroup":"x.io","kind":"K","name":"n"}}}}],
      "permissionClaims":[{"group":"","identityHash":"","resource":"configmaps","verbs":["get","list"]},
        {"defaultSelector":{"matchExpressions":[],"matchLabels":{"a":"b"}},"group":"ex.io",
         "identityHash":"0a","resource":"gears","verbs":["*"]}]}})json");
  export_from_storage(object);
  EXPECT_EQ(object.text({"metadata", "annotations", "apis.v1alpha2.kcp.io/resource-schemas"}),
            R"([{"name":"views","group":"","schema":"v1.views.core","storage":{"virtual":{)"
            R"("reference":{"apiGroup":"x.io","kind":"K","name":"n"},"identityHash":"h"}}}])");
  EXPECT_EQ(object.text({"metadata", "annotations", "apis.v1alpha2.kcp.io/permission-claims"}),
            R"([{"resource":"configmaps","verbs":["get","list"]},)"
            R"({"group":"ex.io","resource":"gears","verbs":["*"],"identityHash":"0a",)"
            R"("defaultSelector":{"matchLabels":{"a":"b"},"matchExpressions":[]}}])");
}

TEST(ApisConversion, WhenAnExportIsWrittenInV1alpha1_AM497_ItsClaimsComeBackAsTheyWere) {
  Json object = parse(R"json({"metadata":{"name":"e"},"spec":{
      "latestResourceSchemas":["v1.pods.core"],
      "permissionClaims":[{"group":"","resource":"secrets","all":true},
        {"resource":"configmaps","resourceSelector":[{"name":"a","namespace":"n"}]}]}})json");
  export_to_storage(object);
  EXPECT_EQ(object.at({"spec", "resources"})->dump(),
            R"([{"group":"","name":"pods","schema":"v1.pods.core","storage":{"crd":{}}}])");
  EXPECT_EQ(object.at({"spec", "permissionClaims"})->items()[0].dump(),
            R"({"group":"","identityHash":"","resource":"secrets","verbs":["*"]})");
  export_from_storage(object);
  EXPECT_EQ(object.at({"spec", "permissionClaims"})->dump(),
            R"([{"all":true,"resource":"secrets"},)"
            R"({"resource":"configmaps","resourceSelector":[{"name":"a","namespace":"n"}]}])");
  EXPECT_EQ(object.at({"metadata", "annotations"}), nullptr);
}

TEST(ApisConversion, WhenABindingGoesThroughV1alpha1_AM497_VerbsAndSelectorsStay) {
  const Json stored = parse(R"json({"metadata":{"name":"b"},"spec":{"permissionClaims":[
      {"group":"","identityHash":"","resource":"secrets","selector":{"matchLabels":{"a":"b"}},
       "state":"Accepted","verbs":["get"]},
      {"group":"","identityHash":"","resource":"configmaps","selector":{"matchAll":true},
       "state":"Rejected","verbs":["*"]}]},
      "status":{"exportPermissionClaims":[{"group":"","identityHash":"","resource":"secrets","verbs":["*"]}]}})json");
  Json object = stored;
  binding_from_storage(object);
  EXPECT_EQ(object.at({"spec", "permissionClaims"})->dump(),
            R"([{"resource":"secrets","state":"Accepted"},)"
            R"({"all":true,"resource":"configmaps","state":"Rejected"}])");
  EXPECT_EQ(object.at({"status", "exportPermissionClaims"})->dump(), R"([{"resource":"secrets"}])");
  binding_to_storage(object);
  EXPECT_EQ(object.dump(), stored.dump());
}

TEST(ApisConversion, WhenAStatusGoesThroughV1alpha1_KK170_VerbsAndSelectorsStay) {
  const Json stored = parse(R"json({"metadata":{"name":"b"},"status":{
      "exportPermissionClaims":[
        {"group":"","identityHash":"","resource":"secrets","verbs":["get","list"]},
        {"group":"","identityHash":"","resource":"configmaps","verbs":["*"]}],
      "appliedPermissionClaims":[
        {"group":"","identityHash":"","resource":"secrets","selector":{"matchLabels":{"a":"b"}},"verbs":["get"]},
        {"group":"","identityHash":"","resource":"configmaps","selector":{"matchAll":true},"verbs":["*"]}]}})json");
  Json object = stored;
  binding_from_storage(object);
  EXPECT_EQ(object.at({"status", "exportPermissionClaims"})->dump(),
            R"([{"resource":"secrets"},{"resource":"configmaps"}])");
  EXPECT_EQ(object.at({"status", "appliedPermissionClaims"})->dump(),
            R"([{"resource":"secrets"},{"all":true,"resource":"configmaps"}])");
  EXPECT_EQ(object.text({"metadata", "annotations",
                         "apis.v1alpha2.kcp.io/status-export-permission-claims"}),
            R"([{"resource":"secrets","verbs":["get","list"]}])");
  EXPECT_EQ(object.text({"metadata", "annotations",
                         "apis.v1alpha2.kcp.io/status-applied-permission-claims"}),
            R"([{"resource":"secrets","verbs":["get"],"selector":{"matchLabels":{"a":"b"}}}])");
  Json back = object;
  binding_to_storage(back);
  EXPECT_EQ(back.at({"status", "exportPermissionClaims"})->dump(),
            stored.at({"status", "exportPermissionClaims"})->dump());
  EXPECT_EQ(back.at({"status", "appliedPermissionClaims"})->dump(),
            stored.at({"status", "appliedPermissionClaims"})->dump());
  // Without its status nobody needs what was kept of it.
  object.erase("status");
  binding_to_storage(object);
  EXPECT_EQ(object.at({"metadata", "annotations"}), nullptr);
}

TEST(ApisConversion, WhenAStatusIsWrittenInV1alpha1_KK170_ItsClaimsComeBackAsTheyWere) {
  const Json written = parse(R"json({"metadata":{"name":"b"},"status":{
      "exportPermissionClaims":[{"all":true,"resource":"secrets"},
        {"resource":"configmaps","resourceSelector":[{"name":"a"}]},{"resource":"pods"}],
      "appliedPermissionClaims":[{"all":true,"resource":"secrets"},
        {"resource":"configmaps","resourceSelector":[{"name":"a"}]}]}})json");
  Json object = written;
  binding_to_storage(object);
  EXPECT_EQ(object.at({"status", "exportPermissionClaims"})->items()[0].dump(),
            R"({"group":"","identityHash":"","resource":"secrets","verbs":["*"]})");
  EXPECT_EQ(object.at({"status", "appliedPermissionClaims"})->items()[1].at({"selector"})->dump(),
            R"({"matchAll":true})");
  EXPECT_EQ(object.text({"metadata", "annotations",
                         "apis.v1alpha2.kcp.io/v1alpha1-status-export-permission-claims"}),
            R"([{"resource":"secrets","all":true},)"
            R"({"resource":"configmaps","resourceSelector":[{"name":"a"}]}])");
  binding_from_storage(object);
  EXPECT_EQ(object.dump(), written.dump());
}

TEST(ApisConversion, WhenAnnotationsAreNotWhatTheyShouldBe_KK147_TheyStayForAdmission) {
  for (const char* text : {"", "x", "{}", "[1", "[1,null,{}]"}) {
    Json object =
        parse(R"({"metadata":{"annotations":{}},"spec":{"permissionClaims":[{"resource":"a"}]}})");
    for (const char* key :
         {"acceptable-permission-claims", "permission-claims", "resource-schemas"}) {
      object.make({"metadata", "annotations", std::string("apis.v1alpha2.kcp.io/") + key}) = text;
    }
    Json binding = object;
    binding_to_storage(binding);
    EXPECT_EQ(binding.at({"spec", "permissionClaims"})->items()[0].at({"verbs"})->dump(),
              R"(["*"])");
    export_to_storage(object);
    EXPECT_EQ(object.at({"spec", "permissionClaims"})->items()[0].at({"verbs"})->dump(),
              R"(["*"])");
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
