#include "kinds/rbac/rbac_escalation.h"

#include <gtest/gtest.h>

#include "kinds/rbac/rbac.h"
#include "kinds/testing/rbac_rig.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
using testing::json;
using testing::Rbac;
using testing::Texts;
using testing::user_of;

class NoObjects final : public apiserver::ObjectReader {
 public:
  std::optional<Json> get(std::string_view, std::string_view, std::string_view, std::string_view,
                          std::string_view) const override {
    return std::nullopt;
  }
  void list(std::string_view, std::string_view, std::string_view, std::string_view,
            const std::function<bool(const Json&)>&) const override {}
};

/// Writes of erin against the escalation check.
class Escalation : public Rbac {
 protected:
  void SetUp() override {
    RbacParams params;
    params.workspace_access = true;
    params.mask_reasons = true;
    options(params);
    bind_cluster_role("in", "system:kcp:workspace:access", R"({"kind":"User","name":"erin"})");
    put("roles", "t1", "r",
        R"({"rules":[{"apiGroups":["rbac.authorization.k8s.io"],
                      "resources":["roles","rolebindings"],"verbs":["create"]},
                     {"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]})");
    put("rolebindings", "t1", "b",
        R"({"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"erin"}]})");
  }
  Error write(const char* resource, const Json& object, const Json* old = nullptr) {
    return write_as(erin_, resource, object, old);
  }
  Error write_as(const auth::UserInfo& user, const char* resource, const Json& object,
                 const Json* old = nullptr) {
    const apiserver::WriteContext context{
        user, "c", old == nullptr ? "create" : "update", "", false, reader_, warnings_};
    const bool role = std::string_view(resource).find("binding") == std::string_view::npos;
    Expected<void> checked = role
                                 ? check_role_escalation(*rbac_, context, resource, object, old)
                                 : check_binding_escalation(*rbac_, context, resource, object, old);
    return checked ? Error(Errc::kOk) : std::move(checked.error());
  }
  Json role(const char* rules) {
    return json(std::string(R"({"metadata":{"name":"y","namespace":"t1"},"rules":)") + rules + "}");
  }
  Json binding(const char* kind, const char* name) {
    return json(std::string(R"({"metadata":{"name":"mine","namespace":"t1"},"roleRef":{"kind":")") +
                kind + R"(","name":")" + name + R"("},"subjects":[{"kind":"User","name":"f"}]})");
  }

  auth::UserInfo erin_ = user_of("erin");
  NoObjects reader_;
  std::vector<std::string> warnings_;
};

TEST_F(Escalation, WhenRulesAreHeld_MayBeGranted) {
  EXPECT_EQ(
      write("roles", role(R"([{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}])"))
          .code(),
      Errc::kOk);
}

TEST_F(Escalation, WhenRulesAreNotHeld_TheMissingOnesAreNamed_AM444) {
  const Error error = write(
      "roles",
      role(
          R"([{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":["get","delete"]}])"));
  EXPECT_EQ(error.code(), Errc::kForbidden);
  EXPECT_EQ(error.message(),
            "roles.rbac.authorization.k8s.io \"y\" is forbidden: user \"erin\" "
            "(groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not "
            "currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], "
            "Verbs:[\"delete\"]}\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" "
            "\"delete\"]}; resolution errors: [roles.rbac.authorization.k8s.io "
            "\"system:kcp:workspace:access\" not found]");
  EXPECT_EQ(error.detail().kind, "roles");
  EXPECT_EQ(error.detail().name, "y");
}

TEST_F(Escalation, WhenRulesStayOnUpdate_OtherFieldsMayChange) {
  const Json old = role(R"([{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}])");
  Json changed = old;
  changed.make({"metadata", "labels", "a"}) = "b";
  EXPECT_EQ(write("roles", changed, &old).code(), Errc::kOk);
  changed["rules"] = json(R"([{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}])");
  EXPECT_EQ(write("roles", changed, &old).code(), Errc::kForbidden);
}

TEST_F(Escalation, WhenUserMayEscalate_EverythingPasses_AM445) {
  const Json wanted = role(R"([{"apiGroups":[""],"resources":["secrets"],"verbs":["delete"]}])");
  EXPECT_EQ(write_as(user_of("x", {"system:kcp:admin"}), "roles", wanted).code(), Errc::kOk);
  put("roles", "t1", "e",
      R"({"rules":[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],
                    "verbs":["escalate"]}]})");
  put("rolebindings", "t1", "e",
      R"({"roleRef":{"kind":"Role","name":"e"},"subjects":[{"kind":"User","name":"erin"}]})");
  EXPECT_EQ(write("roles", wanted).code(), Errc::kOk);
}

TEST_F(Escalation, WhenARoleAggregates_FullRightsAreNeeded) {
  const Json wanted = json(R"({"metadata":{"name":"agg"},"aggregationRule":{}})");
  EXPECT_EQ(write("clusterroles", wanted).code(), Errc::kForbidden);
}

TEST_F(Escalation, WhenBindingToARoleNotHeld_NeedsBind_AM446) {
  put("roles", "t1", "big",
      R"({"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]})");
  const Error error = write("rolebindings", binding("Role", "big"));
  EXPECT_EQ(error.code(), Errc::kForbidden);
  EXPECT_TRUE(error.message().starts_with("rolebindings.rbac.authorization.k8s.io \"mine\" is"));
  EXPECT_EQ(write("rolebindings", binding("Role", "r")).code(), Errc::kOk);
  put("roles", "t1", "e",
      R"({"rules":[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],
                    "verbs":["bind"],"resourceNames":["view"]}]})");
  put("rolebindings", "t1", "e",
      R"({"roleRef":{"kind":"Role","name":"e"},"subjects":[{"kind":"User","name":"erin"}]})");
  EXPECT_EQ(write("rolebindings", binding("ClusterRole", "view")).code(), Errc::kOk);
  EXPECT_EQ(write("rolebindings", binding("ClusterRole", "edit")).code(), Errc::kNotFound);
}

TEST_F(Escalation, WhenTheRoleIsAbsent_IsNotFound_AM447) {
  const Error error = write("rolebindings", binding("Role", "none"));
  EXPECT_EQ(error.code(), Errc::kNotFound);
  EXPECT_EQ(error.message(), "rolebindings.rbac.authorization.k8s.io \"none\" not found");
  EXPECT_EQ(error.detail().kind, "rolebindings");
}

TEST_F(Escalation, WhenTheReferenceHasNoKind_OnlyMastersReachValidation_AM442) {
  const Error error = write("rolebindings", binding("Thing", "x"));
  EXPECT_EQ(error.code(), Errc::kInternal);
  EXPECT_EQ(krm::to_status(error).dump(),
            R"({"apiVersion":"v1","code":500,"kind":"Status",)"
            R"("message":"unsupported role reference kind: \"Thing\"","metadata":{},)"
            R"("status":"Failure"})");
  EXPECT_EQ(
      write_as(user_of("x", {"system:masters"}), "rolebindings", binding("Thing", "x")).code(),
      Errc::kOk);
}

TEST_F(Escalation, WhenHooked_TheKindAsksBeforeItsOwnAdmission) {
  auto kind = std::make_shared<apiserver::ResourceDef>();
  kind->group = "rbac.authorization.k8s.io";
  kind->plural = "roles";
  int inner = 0;
  kind->hooks.admit = [&](const apiserver::WriteContext&, const Json*, const Json*,
                          apiserver::Hooks::AdmitDone done) {
    ++inner;
    done({});
  };
  const apiserver::ResourcePtr checked = with_escalation_check(kind, *rbac_);
  const apiserver::WriteContext context{erin_, "c", "create", "", false, reader_, warnings_};
  Errc code = Errc::kOk;
  const auto admit = [&](const Json& object) {
    checked->hooks.admit(context, &object, nullptr, [&](Expected<void> done) {
      code = done ? Errc::kOk : done.error().code();
    });
  };
  admit(role(R"([{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}])"));
  EXPECT_EQ(code, Errc::kForbidden);
  EXPECT_EQ(inner, 0);
  admit(role("[]"));
  EXPECT_EQ(code, Errc::kOk);
  EXPECT_EQ(inner, 1);
}

}  // namespace
}  // namespace kintsugi::kinds
