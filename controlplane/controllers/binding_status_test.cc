#include "controlplane/controllers/binding_status.h"

#include <gtest/gtest.h>

#include <map>

#include "apiserver/controllers/controller.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

Json parse(std::string_view text) {
  Expected<Json> out = Json::parse(text);
  EXPECT_TRUE(out) << text;
  return out ? std::move(*out) : Json();
}

Json make_schema(const std::string& name, const char* type = "object") {
  return parse(R"({"metadata":{"name":")" + name + R"(","uid":"uid-)" + name +
               R"("},"spec":{"group":"ex.io","scope":"Namespaced",
      "names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList","shortNames":["w"]},
      "versions":[{"name":"v1","served":true,"storage":true,"schema":{"type":")" +
               type + R"("}}]}})");
}

class BindingStatusTest : public ::testing::Test {
 protected:
  BindingStatusTest() {
    sources_.find_export = [this](std::string_view path, std::string_view) {
      asked_path_ = path;
      return api_export_ ? std::optional(ExportRef{"prov", "widgets"}) : std::nullopt;
    };
    sources_.get_export = [this](const ExportRef&) { return api_export_; };
    sources_.get_schema = [this](std::string_view, std::string_view name) {
      const auto found = schemas_.find(std::string(name));
      return found == schemas_.end() ? std::nullopt : std::optional(found->second);
    };
    sources_.take = [this](std::string_view, std::string_view) { return holder_; };
    sources_.names_conflict = [this](const Json&) { return conflict_; };
    sources_.is_served = [this](std::string_view, std::string_view, std::string_view) {
      return served_;
    };
    api_export_ = parse(R"({"spec":{"resources":[{"group":"ex.io","name":"widgets",
        "schema":"v1.widgets.ex.io","storage":{"crd":{}}}]},"status":{"identityHash":"0a1b"}})");
    schemas_["v1.widgets.ex.io"] = make_schema("v1.widgets.ex.io");
    binding_ = parse(R"({"metadata":{"name":"wb"},"spec":{"reference":{"export":
        {"path":"root:prov","name":"widgets"}}}})");
  }
  std::vector<Json> settle() { return settle_binding(binding_, "consumer", sources_); }
  /// "True", or "False <severity> <reason> <message>".
  [[nodiscard]] std::string condition(std::string_view type) const {
    const Json* found = apiserver::find_condition(binding_, type);
    if (found == nullptr) {
      return "absent";
    }
    std::string out(found->text({"status"}));
    for (const char* part : {"severity", "reason", "message"}) {
      out += found->text({part}).empty() ? "" : " " + std::string(found->text({part}));
    }
    return out;
  }
  [[nodiscard]] std::string phase() const {
    return std::string(binding_.text({"status", "phase"}));
  }

  BindingSources sources_;
  std::optional<Json> api_export_;
  std::map<std::string, Json> schemas_;
  std::optional<ResourceHolder> holder_;
  std::string conflict_, asked_path_;
  bool served_ = true;
  Json binding_;
};

TEST_F(BindingStatusTest, WhenAllIsThere_AM499_IsBound) {
  EXPECT_EQ(settle().size(), 1U);
  EXPECT_EQ(phase(), "Bound");
  for (const char* type : {"Ready", "APIExportValid", "BindingUpToDate", "InitialBindingCompleted",
                           "PermissionClaimsApplied", "PermissionClaimsValid"}) {
    EXPECT_EQ(condition(type), "True") << type;
  }
  EXPECT_EQ(binding_.at({"status", "conditions"})->items()[0].text({"type"}), "Ready");
  EXPECT_EQ(binding_.text({"status", "apiExportClusterName"}), "prov");
  EXPECT_EQ(binding_.at({"status", "boundResources"})->dump(),
            R"([{"group":"ex.io","resource":"widgets","schema":{"UID":"uid-v1.widgets.ex.io",)"
            R"("identityHash":"0a1b","name":"v1.widgets.ex.io"},"storageVersions":["v1"]}])");
  const Json before = binding_;
  settle();
  EXPECT_EQ(binding_.dump(), before.dump()) << "a second run changes nothing";
}

TEST_F(BindingStatusTest, KK173_AnExportThatWasMadeAnewIsAnother) {
  api_export_->make({"metadata", "uid"}) = "first";
  settle();
  EXPECT_EQ(binding_.text({"status", "apiExportUID"}), "first");
  api_export_->make({"metadata", "uid"}) = "second";
  settle();
  EXPECT_EQ(condition("APIExportValid"),
            "False Error APIExportNotFound APIExport root:prov|widgets not found");
  EXPECT_EQ(phase(), "Bound") << "what was bound is served";
  EXPECT_EQ(binding_.text({"status", "apiExportUID"}), "first");
  api_export_->make({"metadata", "uid"}) = "first";
  settle();
  EXPECT_EQ(condition("APIExportValid"), "True");
}

TEST_F(BindingStatusTest, WhenASchemaIsMissing_AM499_Waits) {
  schemas_.clear();
  settle();
  EXPECT_EQ(phase(), "Binding");
  EXPECT_EQ(condition("APIExportValid"),
            "False Error InternalError Invalid APIExport. Please contact the APIExport owner to "
            "resolve: APIResourceSchema \"v1.widgets.ex.io\" not found");
  EXPECT_EQ(condition("Ready"),
            "False Info WaitingForEstablished Waiting for API(s) to be established");
}

TEST_F(BindingStatusTest, WhenAnotherHasTheResource_AM501_SaysWho) {
  holder_ = ResourceHolder{"first", false};
  settle();
  EXPECT_EQ(phase(), "Binding");
  const std::string text =
      "False Error NamingConflicts Unable to bind APIs because they are bound by other APIBindings "
      "or CRDs: map[widgets.ex.io:{first false}]";
  EXPECT_EQ(condition("Ready"), text);
  EXPECT_EQ(condition("BindingUpToDate"), text);
  holder_ = ResourceHolder{"", true};
  settle();
  EXPECT_NE(condition("Ready").find("map[widgets.ex.io:{ true}]"), std::string::npos);
  holder_.reset();
  settle();
  EXPECT_EQ(condition("Ready"), "True");
}

TEST_F(BindingStatusTest, WhenNamesCollide_AM501_NothingIsBound) {
  conflict_ = "naming conflict with CustomResourceDefinition \"a\": b";
  settle();
  EXPECT_EQ(condition("Ready"), "False Error NamingConflicts Unable to bind APIs: " + conflict_);
  EXPECT_EQ(binding_.at({"status", "boundResources"}), nullptr);
}

TEST_F(BindingStatusTest, WhenNamesAreCompared_AM501_TellsTheFirst) {
  const Json schema = make_schema("v1.widgets.ex.io");
  EXPECT_EQ(find_names_conflict(schema, {}), "");
  EXPECT_EQ(find_names_conflict(schema, {{"widgets"}, {"Widget"}}),
            "spec.names.plural=widgets is forbidden");
  EXPECT_EQ(find_names_conflict(schema, {{"w"}, {}}), "spec.names.shortNames=[w] is forbidden");
  EXPECT_EQ(find_names_conflict(schema, {{}, {"WidgetList"}}),
            "spec.names.listKind=WidgetList is forbidden");
}

TEST_F(BindingStatusTest, WhenTheExportMoves_AM504_StorageVersionsGrow) {
  settle();
  Json next = make_schema("v2.widgets.ex.io");
  next.at({"spec", "versions"})->edit_items()[0]["name"] = "v2";
  schemas_["v2.widgets.ex.io"] = next;
  api_export_->at({"spec", "resources"})->edit_items()[0]["schema"] = "v2.widgets.ex.io";
  settle();
  const Json& bound = binding_.at({"status", "boundResources"})->items()[0];
  EXPECT_EQ(bound.at({"storageVersions"})->dump(), R"(["v1","v2"])");
  EXPECT_EQ(bound.text({"schema", "name"}), "v2.widgets.ex.io");
}

TEST_F(BindingStatusTest, WhenTheExportIsGone_AM505_StaysBound) {
  settle();
  api_export_.reset();
  settle();
  EXPECT_EQ(condition("APIExportValid"),
            "False Error APIExportNotFound APIExport root:prov|widgets not found");
  EXPECT_EQ(condition("Ready"), "True");
  EXPECT_EQ(phase(), "Bound");
  EXPECT_EQ(binding_.at({"status", "boundResources"})->size(), 1U);
}

TEST_F(BindingStatusTest, WhenASchemaIsInvalid_SaysWhy) {
  schemas_["v1.widgets.ex.io"] = make_schema("v1.widgets.ex.io", "nothing");
  settle();
  EXPECT_TRUE(condition("Ready").starts_with(
      "False Error APIResourceSchemaInvalid APIResourceSchema prov|v1.widgets.ex.io is invalid: "
      "[{FieldValue"))
      << condition("Ready");
  EXPECT_EQ(binding_.at({"status", "boundResources"}), nullptr);
}

TEST_F(BindingStatusTest, WhenSeveralVersionsHaveNoConversion_TheExportIsInvalid) {
  Json& versions = *schemas_["v1.widgets.ex.io"].at({"spec", "versions"});
  versions.push_back(
      parse(R"({"name":"v2","served":true,"storage":false,"schema":{"type":"object"}})"));
  settle();
  EXPECT_EQ(
      condition("APIExportValid"),
      "False Error InternalError Invalid APIExport. Please contact the APIExport owner to resolve");
  schemas_["v1.widgets.ex.io"].make({"spec", "conversion", "strategy"}) = "None";
  settle();
  EXPECT_EQ(condition("APIExportValid"), "True");
}

TEST_F(BindingStatusTest, WhenThereIsNoIdentityYet_AM494_Waits) {
  api_export_->erase("status");
  settle();
  EXPECT_EQ(condition("APIExportValid"),
            "False Warning MissingIdentityHash APIExport root:prov|widgets is missing "
            "status.identityHash");
  EXPECT_EQ(phase(), "Binding");
}

TEST_F(BindingStatusTest, WhenClaimsAreAccepted_AM507_OnlyOfferedOnesApply) {
  api_export_->make({"spec", "permissionClaims"}) = parse(
      R"([{"group":"","identityHash":"","resource":"configmaps","verbs":["get"]},
          {"group":"ex.io","identityHash":"aa","resource":"gears","verbs":["*"]}])");
  const auto claim = [](const char* resource, const char* identity, const char* state,
                        const char* verbs) {
    return std::string(R"({"group":")") + (*identity == 0 ? "" : "ex.io") +
           R"(","identityHash":")" + identity + R"(","resource":")" + resource +
           R"(","selector":{"matchAll":true},"state":")" + state + R"(","verbs":[)" + verbs + "]}";
  };
  binding_.make({"spec", "permissionClaims"}) =
      parse("[" + claim("configmaps", "", "Accepted", R"("get")") + "," +
            claim("secrets", "", "Rejected", R"("get")") + "]");
  settle();
  EXPECT_EQ(binding_.at({"status", "appliedPermissionClaims"})->dump(),
            R"([{"group":"","identityHash":"","resource":"configmaps",)"
            R"("selector":{"matchAll":true},"verbs":["get"]}])");
  EXPECT_EQ(condition("PermissionClaimsValid"), "True");
  EXPECT_EQ(binding_.at({"status", "exportPermissionClaims"})->size(), 2U);

  binding_.make({"spec", "permissionClaims"}) =
      parse("[" + claim("gears", "bb", "Accepted", R"("*")") + "," +
            claim("secrets", "", "Accepted", R"("*")") + "]");
  settle();
  EXPECT_EQ(condition("PermissionClaimsValid"),
            "False Error InvalidPermissionClaims 2 unexpected and/or invalid permission claims "
            "(showing first 2): [unexpected/invalid claim for gears.ex.io (identity \"bb\"), "
            "unexpected/invalid claim for secrets. (identity \"\")]");
  EXPECT_EQ(binding_.at({"status", "appliedPermissionClaims"}), nullptr);

  binding_.make({"spec", "permissionClaims"}) =
      parse("[" + claim("configmaps", "", "Accepted", R"("get","list")") + "]");
  settle();
  EXPECT_EQ(
      condition("PermissionClaimsValid"),
      "False Warning PermissionClaimsMismatch 1 permission claim(s) have mismatched verbs or "
      "selectors (showing first 1): configmaps. (verbs: accepted [get list], exported [get])");
}

TEST_F(BindingStatusTest, WhenAClaimedResourceIsUnknown_AM507_ItIsNotApplied) {
  api_export_->make({"spec", "permissionClaims"}) =
      parse(R"([{"group":"ex.io","identityHash":"","resource":"gears","verbs":["*"]}])");
  binding_.make({"spec", "permissionClaims"}) =
      parse(R"([{"group":"ex.io","identityHash":"","resource":"gears","verbs":["*"],
                 "selector":{"matchAll":true},"state":"Accepted"}])");
  served_ = false;
  settle();
  EXPECT_EQ(
      condition("PermissionClaimsApplied"),
      "False Error InternalError Permission claims have not been fully applied: error getting "
      "informer for group=\"ex.io\", resource=\"gears\": unable to find informer for "
      "gears.ex.io");
  served_ = true;
  settle();
  EXPECT_EQ(condition("PermissionClaimsApplied"), "True");
  EXPECT_EQ(binding_.at({"status", "appliedPermissionClaims"})->size(), 1U);
}

}  // namespace
}  // namespace kintsugi::controlplane
