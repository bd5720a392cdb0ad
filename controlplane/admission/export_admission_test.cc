#include "controlplane/admission/export_admission.h"

#include <gtest/gtest.h>

#include <string>

#include "controlplane/testing/write.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::member;
using testing::TestWrite;
using testing::text_of;

Json export_with(std::string_view spec, std::string_view annotations = "{}") {
  Expected<Json> object =
      Json::parse(R"({"metadata": {"name": "e", "annotations": )" + std::string(annotations) +
                  R"(}, "spec": )" + std::string(spec) + "}");
  EXPECT_TRUE(object);
  return object ? *object : Json();
}

std::string approved(const Json& object, const Json* old = nullptr, std::string part = {},
                     const char* group = "devs") {
  const TestWrite write(member({group}), std::move(part));
  std::string text = "no answer";
  approve_export(write.context, &object, old,
                 [&](const Expected<void>& result) { text = text_of(result); });
  return text;
}

constexpr const char* kWidgets =
    R"({"permissionClaims": [{"group": "a.io", "resource": "widgets", "verbs": ["get"]}]})";

TEST(ExportAdmission, WhenAClaimIsOnWhatOthersDefine_KK140_ItNamesWhose) {
  const std::string fault =
      "spec.permissionClaims[0].identityHash: Invalid value: \"\": identityHash is required for "
      "API "
      "types that are not built-in";
  const Json claims = export_with(kWidgets);
  EXPECT_EQ(export_fault(claims, nullptr), fault);
  EXPECT_EQ(export_fault(claims, &claims), "") << "what is there may be sent again (KK-009)";
  for (const char* claim : {R"({"group": "", "resource": "configmaps"})",
                            R"({"group": "apis.kcp.io", "resource": "anything"})",
                            R"({"group": "core.kcp.io", "resource": "logicalclusters"})",
                            R"({"group": "a.io", "resource": "widgets", "identityHash": "x"})"}) {
    EXPECT_EQ(
        export_fault(export_with(R"({"permissionClaims": [)" + std::string(claim) + "]}"), nullptr),
        "")
        << claim;
  }
}

TEST(ExportAdmission, WhenASchemaIsOfSomethingElse_KK141_SaysWhatItEndsIn) {
  const Json wrong = export_with(
      R"({"resources": [{"group": "wild", "name": "horses", "schema": "v1.horses.wild"},
                        {"group": "", "name": "cows", "schema": "v1.cows.wild"}]})");
  EXPECT_EQ(export_fault(wrong, nullptr),
            "spec.resources[1].schema: Invalid value: \"v1.cows.wild\": must end in .cows.core");
  EXPECT_EQ(export_fault(wrong, &wrong), "");
}

TEST(ExportAdmission, WhenSeveralThingsAreWrong_KK140_KK141_TheFirstIsTold) {
  const Json wrong = export_with(
      R"({"permissionClaims": [{"group": "a.io", "resource": "widgets", "verbs": ["get"]},
                               {"group": "b.io", "resource": "widgets", "verbs": ["get"]}],
          "resources": [{"group": "", "name": "cows", "schema": "v1.cows.wild"}]})");
  EXPECT_EQ(export_fault(wrong, nullptr), export_fault(export_with(kWidgets), nullptr));
}

TEST(ExportAdmission, WhenAStatusIsWritten_KK143_OnlyTheSystemMay) {
  const Json any = export_with("{}");
  EXPECT_EQ(approved(any, &any, "status"),
            "apiexports.apis.kcp.io \"e\" is forbidden: access denied");
  EXPECT_EQ(approved(any, &any, "status", "system:masters"), "");
}

TEST(ExportAdmission, WhenAnnotationsOfTheOtherVersionAreLeft_KK147_TheyAreRefusedOnce) {
  const Json left =
      export_with("{}", R"({"apis.v1alpha2.kcp.io/permission-claims": "[{\"resource\":\"a\"}]"})");
  EXPECT_NE(approved(left).find("do not match permission claims defined in spec"),
            std::string::npos);
  EXPECT_EQ(approved(left, &left), "") << "what is there may be sent again (KK-009)";
  const Json broken = export_with("{}", R"({"apis.v1alpha2.kcp.io/resource-schemas": "[1]"})");
  EXPECT_NE(approved(broken).find("failed to decode overhanging resource schemas"),
            std::string::npos);
}

TEST(ExportAdmission, WhenWhatIsKeptOfAStatusIsBroken_KK170_ItIsRefusedOnce) {
  for (const std::string name :
       {"status-export-permission-claims", "status-applied-permission-claims",
        "v1alpha1-status-export-permission-claims", "v1alpha1-status-applied-permission-claims"}) {
    const std::string key = "apis.v1alpha2.kcp.io/" + name;
    const auto with = [&](const char* value) {
      Json object = export_with("{}");
      object.make({"metadata", "annotations", key}) = value;
      return object;
    };
    for (const char* broken : {"", "{", "{}", "[1]"}) {
      EXPECT_EQ(status_annotation_fault(with(broken), nullptr),
                "metadata.annotations[" + key + "]: Invalid value: \"" + broken +
                    "\": failed to decode overhanging permission claims");
      const Json same = with(broken);
      EXPECT_EQ(status_annotation_fault(same, &same), "");
    }
    EXPECT_EQ(status_annotation_fault(with(R"([{"resource":"any"}])"), nullptr), "");
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
