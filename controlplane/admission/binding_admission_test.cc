#include "controlplane/admission/binding_admission.h"

#include <gtest/gtest.h>

#include "controlplane/controllers/binding_status.h"
#include "controlplane/internal/names.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "controlplane/testing/write.h"
#include "krm/finalizers.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::ListedRights;
using testing::member;
using testing::TestWrite;
using testing::text_of;

Json parse(const std::string& text) {
  Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? std::move(*parsed) : Json();
}

Json binding(const std::string& claims) {
  return parse(R"({"metadata": {"name": "b"}, "spec": {"reference": {"export": {"name": "e"}},
      "permissionClaims": [)" +
               claims + "]}}");
}
std::string claim(const char* resource, const char* verbs, const char* state = "Accepted") {
  return R"({"group": "", "resource": ")" + std::string(resource) + R"(", "verbs": )" + verbs +
         R"(, "selector": {"matchAll": true}, "state": ")" + state + R"("})";
}

class BindingAdmissionTest : public ::testing::Test {
 protected:
  std::string approve(const Json& now, const Json* old = nullptr, const char* group = "devs",
                      const char* subresource = "") {
    const TestWrite write(member({group}), subresource);
    std::string text = "no answer";
    approve_binding(&rights_, write.context, &now, old,
                    [&](Expected<void> result) { text = text_of(result); });
    return text;
  }
  static std::string refused(const std::string& text) {
    return "apibindings.apis.kcp.io \"b\" is forbidden: " + text;
  }
  ListedRights rights_;
};

TEST_F(BindingAdmissionTest, WhenAClaimIsAccepted_KK166_TheUserHoldsItsVerbs) {
  const Json wants =
      binding(claim("configmaps", R"(["get"])") + "," + claim("secrets", R"(["get", "list"])"));
  EXPECT_EQ(approve(wants),
            refused("permission claim 0 grants verbs the user does not hold: [get]"));
  rights_.allowed_texts = {"abc get /configmaps/"};
  EXPECT_EQ(approve(wants),
            refused("permission claim 1 grants verbs the user does not hold: [get list]"));
  rights_.allowed_texts.emplace_back("abc list /secrets/");
  EXPECT_EQ(approve(wants),
            refused("permission claim 1 grants verbs the user does not hold: [get]"));
  rights_.allowed_texts.emplace_back("abc * /secrets/");
  EXPECT_EQ(approve(wants), "");
}

TEST_F(BindingAdmissionTest, WhenAllVerbsAreClaimed_KK166_OnlyAllOfThemAreEnough) {
  const Json wants = binding(claim("secrets", R"(["*"])"));
  rights_.allowed_texts = {"abc get /secrets/", "abc list /secrets/"};
  EXPECT_EQ(approve(wants), refused("permission claim 0 grants verbs the user does not hold: [*]"));
}

TEST_F(BindingAdmissionTest, WhenNothingIsAccepted_KK166_NobodyIsAsked) {
  const Json rejected = binding(claim("secrets", R"(["*"])", "Rejected"));
  EXPECT_EQ(approve(rejected), "");
  const Json accepted = binding(claim("secrets", R"(["get", "list"])"));
  EXPECT_EQ(approve(accepted, &accepted), "");
  EXPECT_EQ(approve(binding(claim("secrets", R"(["get"])")), &accepted), "");
  EXPECT_TRUE(rights_.questions.empty());
  EXPECT_EQ(approve(accepted, &rejected),
            refused("permission claim 0 grants verbs the user does not hold: [get list]"));
  EXPECT_EQ(approve(binding(claim("secrets", R"(["get", "list", "delete"])")), &accepted),
            refused("permission claim 0 grants verbs the user does not hold: [delete]"));
  for (const char* group :
       {"system:masters", "system:kcp:admin", "system:kcp:tenancy:workspace-bootstrapper"}) {
    EXPECT_EQ(approve(accepted, nullptr, group), "") << group;
  }
}

TEST_F(BindingAdmissionTest, WhenEscalationIsAllowed_KK166_AnybodyAccepts) {
  const TestWrite write(member({"devs"}));
  const Json wants = binding(claim("secrets", R"(["*"])"));
  std::string text = "no answer";
  approve_binding(nullptr, write.context, &wants, nullptr,
                  [&](Expected<void> result) { text = text_of(result); });
  EXPECT_EQ(text, "");
}

TEST_F(BindingAdmissionTest, WhenStatusIsWritten_KK167_OnlyTheSystemMay) {
  const Json any = binding("");
  for (const char* group :
       {"devs", "system:kcp:admin", "system:kcp:tenancy:workspace-bootstrapper",
        "system:kcp:external-logical-cluster-admin", "system:kcp:initializer:root:t"}) {
    EXPECT_EQ(approve(any, &any, group, "status"), refused("access denied")) << group;
  }
  EXPECT_EQ(approve(any, &any, "system:masters", "status"), "");
}

TEST_F(BindingAdmissionTest, WhenItIsDeleted_KK160_TheFinalizerIsTheSystems) {
  Json old = binding("");
  old.make({"metadata", "finalizers"}).push_back(Json(krm::kBindingFinalizer));
  old.make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
  Json now = old;
  now["metadata"].erase("finalizers");
  for (const char* group : {"devs", "system:kcp:admin"}) {
    EXPECT_EQ(approve(now, &old, group),
              refused("removing the finalizer apis.kcp.io/apibinding-finalizer is forbidden"));
  }
  EXPECT_EQ(approve(now, &old, "system:masters"), "");
  now["metadata"].erase("deletionTimestamp");
  const TestWrite write(member({"devs"}));
  prepare_binding(write.context, now, &old);
  EXPECT_EQ(now.at({"metadata", "finalizers"})->size(), 1U) << "it comes back";
}

TEST(Bindings, WhenMembersOfClaimsAreAbsent_KK161_TheSchemaSeesThemEmpty) {
  const Json sent = parse(R"({"metadata":{"name":"b"},"spec":{
      "reference":{"export":{"name":"e","path":""}},
      "permissionClaims":[{"resource":"a"},{"group":"","resource":"b","identityHash":"",
        "selector":{"matchAll":false,"matchLabels":{"a":"b"}},"state":"Accepted","verbs":["get"]}]}})");
  Json judged = sent;
  const TestWrite write(member({"devs"}));
  prepare_binding(write.context, judged, nullptr);
  EXPECT_EQ(judged.at({"spec", "reference"})->dump(), R"({"export":{"name":"e"}})");
  EXPECT_EQ(judged.at({"spec", "permissionClaims"})->dump(),
            R"([{"resource":"a","selector":{},"state":"","verbs":null},)"
            R"({"resource":"b","selector":{"matchLabels":{"a":"b"}},"state":"Accepted",)"
            R"("verbs":["get"]}])");
}

TEST(Bindings, WhenSomethingHasAnotherType_KK161_TheSchemaSeesItAsItIs) {
  for (const char* spec : {R"({"reference":"x"})", R"({"reference":{"export":7}})",
                           R"({"reference":{"export":{"name":5}}})", R"({"reference":{}})",
                           R"({"reference":{"export":{"name":"e"}},"permissionClaims":[7]})"}) {
    Json binding = parse(R"({"metadata":{"name":"b"},"spec":)" + std::string(spec) + "}");
    const std::string before = binding.find("spec")->dump();
    const TestWrite write(member({"devs"}));
    prepare_binding(write.context, binding, nullptr);
    EXPECT_EQ(binding.find("spec")->dump(), before);
    ListedRights rights;
    ApiCatalog catalog;
    std::string text = "no answer";
    admit_binding(catalog, rights, write.context, &binding, nullptr,
                  [&](Expected<void> result) { text = text_of(result); });
    EXPECT_EQ(text, "") << spec << ": the schema refuses it, or approve_binding";
    EXPECT_TRUE(rights.questions.empty());
  }
}

TEST(Bindings, WhenTheReferenceIsNew_KK162_VerbBindIsAskedForCreateAndUpdate) {
  const Json wanted = parse(
      R"({"metadata":{"name":"b"},"spec":{"reference":{"export":{"name":"x","path":"root"}}}})");
  const Json other = parse(
      R"({"metadata":{"name":"b"},"spec":{"reference":{"export":{"name":"y","path":"root"}}}})");
  ApiCatalog catalog;
  const TestWrite write(member({"devs"}));
  const auto admitted = [&](ListedRights& rights, const Json& now, const Json* old) {
    std::string text = "no answer";
    admit_binding(catalog, rights, write.context, &now, old,
                  [&](Expected<void> result) { text = text_of(result); });
    return text;
  };
  const std::string forbidden = "apibindings.apis.kcp.io \"b\" is forbidden: unable to ";
  ListedRights rights;
  EXPECT_EQ(admitted(rights, wanted, nullptr),
            forbidden + "create APIBinding: no permission to bind to export root:x");
  EXPECT_EQ(admitted(rights, wanted, &other),
            forbidden + "update APIBinding: no permission to bind to export root:x");
  EXPECT_EQ(admitted(rights, wanted, &wanted), "");
  EXPECT_EQ(rights.questions.size(), 2U);
  rights.allowed_texts = {"root bind apis.kcp.io/apiexports/x"};
  EXPECT_EQ(admitted(rights, wanted, &other), "") << "the schema's rule then refuses the change";
  rights.allowed_texts = {"abc bind apis.kcp.io/apiexports/"};
  EXPECT_EQ(
      admitted(rights, parse(R"({"metadata":{"name":"b"},"spec":{"reference":{"export":{}}}})"),
               nullptr),
      "");
}

TEST_F(BindingAdmissionTest, WhenTheSchemaHasNothingToSay_KK161_AllFaultsAreOneList) {
  const auto of = [](const char* spec) {
    return parse(R"({"metadata":{"name":"b"},"spec":)" + std::string(spec) + "}");
  };
  const std::string missing =
      ".selector: Required value: either one of matchAll, matchLabels, or matchExpressions must be "
      "set";
  EXPECT_EQ(approve(of(R"({"reference":{}})")), refused("[spec.reference.export: Required value]"));
  EXPECT_EQ(
      approve(of(R"({"reference":{"export":{"name":""}},"permissionClaims":[
              {"resource":"a","selector":{},"state":"Rejected","verbs":["get"]},
              {"resource":"b","selector":{"matchAll":true,"matchLabels":{"a":"b"},
                "matchExpressions":[{"key":"k","operator":"Exists"}]},"state":"Rejected","verbs":["get"]}]})")),
      refused("[spec.reference.export.name: Required value spec.permissionClaims[0]" + missing +
              R"( spec.permissionClaims[1].selector.matchLabels: Invalid value: )"
              R"({"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"Exists"}],)"
              R"("matchAll":true}: matchLabels cannot be used with matchAll )"
              R"(spec.permissionClaims[1].selector.matchExpressions: Invalid value: )"
              R"({"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"Exists"}],)"
              R"("matchAll":true}: matchExpressions cannot be used with matchAll])"));
  const Json unchanged = of(R"({"reference":{}})");
  EXPECT_EQ(approve(unchanged, &unchanged), "") << "KK-009";
}

TEST_F(BindingAdmissionTest, WhenThePhaseGoesBack_KK161_ItIsRefusedForTheSystemToo) {
  Json bound = binding("");
  bound.make({"status", "phase"}) = "Bound";
  Json unbound = binding("");
  unbound.make({"status", "phase"}) = "";
  EXPECT_EQ(approve(unbound, &bound, "system:masters", "status"),
            refused("[status.phase: Forbidden: cannot transition from \"Bound\" to \"\"]"));
  EXPECT_EQ(approve(bound, &unbound, "system:masters", "status"), "");
}

struct GroupCase {
  const char* group;
  bool reserved;
};

TEST(ReservedGroups, WhenDefined_KK223_KcpsOwnAreRefused) {
  const GroupCase cases[] = {
      {"core.kcp.io", true},       {"kcp.io", true},        {"x.apis.kcp.io", true},
      {"apis.kcp.io", true},       {"myapis.kcp.io", true}, {"tenancy.kcp.io", true},
      {"topology.kcp.io", true},   {"cache.kcp.io", true},  {"migration.kcp.io", true},
      {"mykcp.io", false},         {"x.kcp.io", false},     {"x.core.kcp.io", false},
      {"syncagent.kcp.io", false}, {"example.io", false},   {"kcp.io.example.io", false}};
  for (const auto& [defines, plural, shown] :
       {std::tuple<const char*, const char*, const char*>{
            "apiextensions.k8s.io", "customresourcedefinitions",
            "customresourcedefinitions.apiextensions.k8s.io"},
        {"apis.kcp.io", "apiresourceschemas", "apiresourceschemas.apis.kcp.io"}}) {
    auto def = std::make_shared<apiserver::ResourceDef>();
    def->group = defines;
    def->plural = plural;
    const apiserver::ResourcePtr guarded = with_reserved_groups(def);
    const auto admit = [&](const char* group, std::string cluster, const char* user,
                           const char* note = nullptr) {
      const TestWrite write(member({user}), "", std::move(cluster));
      Json object = parse(R"({"metadata": {"name": "n"}, "spec": {"group": ")" +
                          std::string(group) + R"("}})");
      if (note != nullptr) {
        object.make({"metadata", "annotations", note}) = "x";
      }
      std::string text = "no answer";
      guarded->hooks.admit(write.context, &object, nullptr,
                           [&](Expected<void> result) { text = text_of(result); });
      return text;
    };
    const std::string prefix = std::string(shown) + " \"n\" is forbidden: ";
    for (const auto& [group, reserved] : cases) {
      for (const char* user : {"devs", "system:kcp:admin"}) {
        EXPECT_EQ(admit(group, "abc", user),
                  reserved ? prefix + group + " is a reserved group" : "")
            << group;
      }
      EXPECT_EQ(admit(group, "root", "devs"), "");
      const bool below_apis = std::string_view(group).ends_with("apis.kcp.io");
      EXPECT_EQ(admit(group, "abc", "system:masters").empty(), !below_apis) << group;
      EXPECT_EQ(admit(group, "system:bound-crds", "devs"), "");
    }
    const bool is_schema = defines == std::string("apis.kcp.io");
    for (const char* key : {"apis.kcp.io", "apis.kcp.io/bound-crd", "apis.kcp.io/schema-name",
                            "internal.apis.kcp.io/x"}) {
      EXPECT_EQ(admit("example.io", "abc", "devs", key),
                is_schema ? "" : prefix + key + " is a reserved annotation");
    }
    EXPECT_EQ(admit("example.io", "abc", "devs", "myapis.kcp.io/x"), "");
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
