#include "controlplane/admission/workspace_admission.h"

#include <gtest/gtest.h>

#include "controlplane/controllers/owner_annotation.h"
#include "controlplane/internal/names.h"
#include "controlplane/testing/write.h"
#include "krm/annotations.h"

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
Json workspace(const std::string& spec) {
  return parse(R"({"metadata": {"name": "w"}, "spec": )" + spec + "}");
}

constexpr const char* kMount =
    R"("mount": {"ref": {"apiVersion": "m/v1", "kind": "Mount", "name": "one"}})";

std::string fault(const char* group, const std::string& now, const char* old = nullptr) {
  const TestWrite write(member({group}));
  const Json before = old == nullptr ? Json() : workspace(old);
  Json object = workspace(now);
  if (old == nullptr) {  // as prepare_workspace leaves it
    object.make({"metadata", "annotations", krm::kOwnerAnnotation}) =
        owner_annotation(write.context.user);
  }
  return workspace_fault(write.context, object, old == nullptr ? nullptr : &before);
}

TEST(WorkspaceFault, WhenMade_KK048_WhatWasWrittenOfItsMakerHasToBeThereStill) {
  const std::string mount = std::string("{") + kMount + "}";
  for (const char* spec : {"{}", mount.c_str()}) {
    for (const char* group : {"system:authenticated", "system:kcp:admin"}) {
      const TestWrite write(member({group}));
      const std::string owner = owner_annotation(write.context.user);
      Json object = workspace(spec);
      const std::string missing = "expected user annotation experimental.tenancy.kcp.io/owner=";
      EXPECT_EQ(workspace_fault(write.context, object, nullptr), missing + owner);
      for (const char* forged : {"", "{}", R"({"username":"eve"})", "null"}) {
        object.make({"metadata", "annotations", krm::kOwnerAnnotation}) = forged;
        EXPECT_EQ(workspace_fault(write.context, object, nullptr), missing + owner) << forged;
      }
      object.make({"metadata", "annotations", krm::kOwnerAnnotation}) = owner;
      EXPECT_EQ(workspace_fault(write.context, object, nullptr), "");
      object.make({"metadata", "annotations", krm::kRequiredGroupsAnnotation}) = "mine";
      EXPECT_EQ(workspace_fault(write.context, object, nullptr),
                "missing required groups annotation authorization.kcp.io/required-groups=");
    }
  }
  const TestWrite system(member({"system:masters"}));
  EXPECT_EQ(workspace_fault(system.context, workspace("{}"), nullptr), "");
}

TEST(WorkspaceFault, WhenMade_KK046_KK047_OnlyTheSystemSaysWhereItIs) {
  for (const char* cluster : {"root", "another", "system:admin", "new"}) {
    const std::string spec = R"({"cluster": ")" + std::string(cluster) + R"("})";
    for (const char* group :
         {"system:kcp:admin", "system:authenticated", "system:kcp:tenancy:workspace-bootstrapper",
          "system:kcp:external-logical-cluster-admin"}) {
      EXPECT_EQ(fault(group, spec), "spec.Cluster can only be set by system privileged users");
    }
    EXPECT_EQ(fault("system:masters", spec), "");
  }
  EXPECT_EQ(fault("system:kcp:admin", R"({"URL": "https://evil"})"),
            "spec.URL can only be set by system privileged users");
  EXPECT_EQ(fault("system:masters", R"({"URL": "https://here"})"), "");
  EXPECT_EQ(fault("system:kcp:admin", std::string(R"({"URL": "https://evil", )") + kMount + "}"),
            "spec.URL can only be set by system privileged users");
}

TEST(WorkspaceFault, WhenAMountIsMade_KK049_TheReferenceIsWhole) {
  const char* tenant = "system:authenticated";
  EXPECT_EQ(fault(tenant, std::string("{") + kMount + "}"), "");
  EXPECT_EQ(fault(tenant, R"({"mount": {"ref": {"apiVersion": "v1", "name": "n"}}})"),
            "spec.mount.kind must be set");
  EXPECT_EQ(fault(tenant, R"({"mount": {"ref": {"apiVersion": "v1", "kind": "K"}}})"),
            "spec.mount.name must be set");
  EXPECT_EQ(fault(tenant, R"({"mount": {"ref": {"kind": "K", "name": "n"}}})"),
            "spec.mount.apiVersion must be set");
  const std::string typed = std::string(R"({"type": {"name": "universal"}, )") + kMount + "}";
  EXPECT_EQ(fault(tenant, typed), "spec.type cannot be set for mounted workspaces");
  EXPECT_EQ(fault("system:masters", typed), "");
}

TEST(WorkspaceFault, WhenChanged_KK050_KK053_ThePlaceIsTheSystems) {
  const std::string mount = std::string(", ") + kMount;
  for (const char* kind : {"", mount.c_str()}) {
    const std::string old = R"({"location": {})" + std::string(kind) + "}";
    for (const char* group : {"system:authenticated", "system:kcp:admin"}) {
      EXPECT_EQ(fault(group, R"({"cluster": "root")" + std::string(kind) + "}", old.c_str()),
                "spec.cluster can only be changed by system privileged users");
      EXPECT_EQ(fault(group, R"({"URL": "https://evil")" + std::string(kind) + "}", old.c_str()),
                "spec.URL can only be changed by system privileged users");
    }
    EXPECT_EQ(
        fault("system:masters", R"({"cluster": "a", "URL": "https://b")" + std::string(kind) + "}",
              old.c_str()),
        "");
  }
  EXPECT_EQ(fault("system:masters", "{}", R"({"cluster": "a"})"), "spec.cluster cannot be unset");
  EXPECT_EQ(fault("system:authenticated", R"({"cluster": "a", "URL": "u"})",
                  R"({"cluster": "a", "URL": "u"})"),
            "");
}

TEST(WorkspaceFault, WhenChanged_KK050_TheTypeStays) {
  const char* typed = R"({"type": {"name": "a", "path": "root"}})";
  EXPECT_EQ(fault("system:masters", "{}", typed), "spec.type is immutable");
  EXPECT_EQ(fault("system:masters", typed, "{}"), "spec.type is immutable");
  EXPECT_EQ(fault("system:masters", R"({"type": {"name": "b", "path": "root"}})", typed),
            R"(spec.type: Invalid value: {"name":"b","path":"root"}: field is immutable)");
}

TEST(WorkspaceFault, WhenAMountChanges_KK052_KK054_ItIsRefused) {
  const std::string mount = std::string("{") + kMount + "}";
  for (const char* group : {"system:authenticated", "system:masters"}) {
    EXPECT_EQ(fault(group, mount, "{}"), "spec.mount is immutable");
    EXPECT_EQ(fault(group, "{}", mount.c_str()), "spec.mount cannot be unset");
    for (const char* field : {"kind", "name", "namespace", "apiVersion"}) {
      Json changed = workspace(mount);
      changed.make({"spec", "mount", "ref", field}) = "Other";
      const TestWrite write(member({group}));
      const Json old = workspace(mount);
      EXPECT_EQ(workspace_fault(write.context, changed, &old),
                "spec.mount." + std::string(field) + " is immutable");
    }
  }
  EXPECT_EQ(fault("system:authenticated",
                  std::string(R"({"type": {"name": "universal"}, )") + kMount + "}", mount.c_str()),
            "spec.type cannot be set for mounted workspaces");
}

TEST(WorkspaceFault, WhenItBecomesReady_KK051_ItSaysWhere) {
  const TestWrite write(member({"system:masters"}), "status");
  Json old = workspace("{}");
  Json now = old;
  now.make({"status", "phase"}) = "Ready";
  EXPECT_EQ(workspace_fault(write.context, now, &old), "spec.cluster must be set for phase Ready");
  now.make({"spec", "cluster"}) = "a";
  EXPECT_EQ(workspace_fault(write.context, now, &old), "spec.URL must be set for phase Ready");
  now.make({"spec", "URL"}) = "https://a";
  EXPECT_EQ(workspace_fault(write.context, now, &old), "");
  const Json mount = workspace(std::string("{") + kMount + "}");
  Json ready = mount;
  ready.make({"status", "phase"}) = "Ready";
  EXPECT_EQ(workspace_fault(write.context, ready, &mount), "");
}

/// The logical cluster in which the workspaces are made.
class OneCluster final : public testing::NothingStored {
 public:
  std::optional<Json> get(std::string_view, std::string_view, std::string_view resource,
                          std::string_view, std::string_view) const override {
    return resource == "logicalclusters" ? std::optional(cluster) : std::nullopt;
  }
  Json cluster = Json::object();
};

class WorkspaceAdmissionTest : public ::testing::Test {
 protected:
  WorkspaceAdmissionTest() {
    put_type("universal", "{}");
    put_type("base", "{}");
    put_type("middle", R"({"extend": {"with": [{"name": "base", "path": "root"}]}})");
    put_type("leaf", R"({"extend": {"with": [{"name": "middle", "path": "root"},
                                             {"name": "universal", "path": "root"}]}})");
    put_type("ring", R"({"extend": {"with": [{"name": "gnir", "path": "root"}]}})");
    put_type("gnir", R"({"extend": {"with": [{"name": "ring", "path": "root"}]}})");
    put_type("lost", R"({"extend": {"with": [{"name": "gone", "path": "root"}]}})");
  }
  void put_type(const char* name, const char* spec) {
    const Json type = Json::object({{"spec", parse(spec)}});
    root_.put_type(name, &type);
  }
  std::string approve(const char* type, const auth::UserInfo& user = member({"devs"})) {
    const TestWrite write(user, "", "root");
    Json object =
        workspace(R"({"type": {"name": ")" + std::string(type) + R"(", "path": "root"}})");
    prepare_workspace(types_, write.context, object, nullptr);
    std::string text = "no answer";
    const auto done = [&](Expected<void> result) { text = text_of(result); };
    admit_workspace(types_, write.context, &object, nullptr, done);
    if (text.empty()) {
      approve_workspace(types_, rights_, write.context, &object, nullptr, done);
    }
    return text;
  }
  static std::string refused(const std::string& text) {
    return "workspaces.tenancy.kcp.io \"w\" is forbidden: " + text;
  }
  static std::string missing(const std::string& type) {
    return refused("unable to use workspace type " + type +
                   ": missing verb='use' permission on workspacetype");
  }
  static std::string use(const char* type) {
    return "root use tenancy.kcp.io/workspacetypes/" + std::string(type);
  }

  ClusterIndex index_;
  RootView root_;
  WorkspaceTypeLookup types_{index_, root_};
  ListedRights rights_;
};

TEST_F(WorkspaceAdmissionTest, WhenATypeExtendsOthers_KK055_EachMayBeUsed) {
  EXPECT_EQ(approve("universal"), "");
  EXPECT_TRUE(rights_.questions.empty()) << "everybody may use it";
  EXPECT_EQ(approve("leaf"), missing("root:leaf"));
  rights_.allowed_texts = {use("leaf")};
  EXPECT_EQ(approve("leaf"), missing("root:middle"));
  rights_.allowed_texts = {use("leaf"), use("middle")};
  EXPECT_EQ(approve("leaf"), missing("root:base"));
  rights_.allowed_texts = {use("leaf"), use("middle"), use("base")};
  EXPECT_EQ(approve("leaf"), "");
  rights_.allowed_texts = {use("leaf"), use("base")};
  EXPECT_EQ(approve("leaf"), missing("root:middle"));
}

TEST_F(WorkspaceAdmissionTest, WhenTypesLimitEachOther_KK055_KK058_RightsAreAskedFirst) {
  put_type("alone", R"({"limitAllowedParents": {"none": true}})");
  put_type("strict", R"({"limitAllowedChildren": {"types": [{"name": "team", "path": "root"}]}})");
  Json here = parse(R"({"metadata": {"name": "cluster", "annotations": {
      "internal.tenancy.kcp.io/type": "root:strict"}}, "status": {"phase": "Ready"}})");
  index_.put_cluster("root", &here);
  EXPECT_EQ(approve("alone"), missing("root:alone"));
  rights_.allowed_texts = {use("alone")};
  EXPECT_EQ(approve("alone"), refused("workspace type root:alone cannot have any parent"))
      << "the parents of the child come before the children of the parent";
  EXPECT_EQ(
      approve("universal"),
      refused("workspace type root:strict only allows [root:team] child workspaces, but child "
              "type root:universal only implements [root:universal]"));
}

TEST_F(WorkspaceAdmissionTest, WhenPathsAreMalformed_KK044_NoTypeIsThere) {
  for (const char* path : {"root:", ":root", "root::x", ":"}) {
    const TestWrite write(member({"system:kcp:admin"}), "", "root");
    Json object =
        workspace(R"({"type": {"name": "universal", "path": ")" + std::string(path) + R"("}})");
    prepare_workspace(types_, write.context, object, nullptr);
    std::string text;
    admit_workspace(types_, write.context, &object, nullptr,
                    [&](Expected<void> result) { text = text_of(result); });
    EXPECT_EQ(text, refused("Internal error occurred: workspacetypes.tenancy.kcp.io \"" +
                            std::string(path) + ":universal\" not found"));
  }
}

TEST_F(WorkspaceAdmissionTest, WhenMadeWithoutType_KK043_TheTypeOfTheParentSaysWhich) {
  put_type("team", R"({"defaultChildWorkspaceType": {"name": "base", "path": "root"}})");
  TestWrite write(member({"devs"}), "", "root");
  OneCluster reader;
  const apiserver::WriteContext context{write.user, write.cluster, "create",      "",
                                        false,      reader,        write.warnings};
  const auto made = [&](const std::string& type) {
    reader.cluster.make({"metadata", "annotations", krm::kTypeAnnotation}) = type;
    Json object = workspace(R"({"type": null})");
    prepare_workspace(types_, context, object, nullptr);
    std::string text;
    admit_workspace(types_, context, &object, nullptr,
                    [&](Expected<void> result) { text = text_of(result); });
    return text.empty() ? object.find("spec")->dump() : text;
  };
  EXPECT_EQ(made("root:team"), R"({"type":{"name":"base","path":"root"}})");
  // The text is that of the annotation, not of memory that was let go.
  const std::string long_name(60, 'x');
  EXPECT_EQ(made("root:" + long_name),
            refused("parent type cannot be resolved: workspacetypes.tenancy.kcp.io \"root:" +
                    long_name + "\" not found"));
  EXPECT_EQ(made("team"),
            refused("annotation internal.tenancy.kcp.io/type on LogicalCluster must be in the form "
                    "of cluster:name"));
  EXPECT_EQ(made(""),
            refused("annotation internal.tenancy.kcp.io/type on LogicalCluster must be set"));
}

TEST_F(WorkspaceAdmissionTest, WhenTypesAreWrong_KK055_SaysWhere) {
  EXPECT_EQ(approve("ring"), refused("circular dependency detected in workspace type root:ring: "
                                     "root:ring -> root:gnir -> root:ring"));
  EXPECT_EQ(approve("lost"), refused("unable to find inherited workspace type gone"));
  rights_.unreachable = true;
  EXPECT_EQ(approve("base"),
            refused("unable to determine access to workspace type root:base: nobody answers"));
}

TEST_F(WorkspaceAdmissionTest, WhenATypeIsNotThere_KK332_StrangersHearNothingOfIt) {
  EXPECT_EQ(approve("none"), missing("root:none"));
  EXPECT_EQ(approve("none", member({"system:kcp:admin"})),
            refused("Internal error occurred: workspacetypes.tenancy.kcp.io \"root:none\" not "
                    "found"));
}

TEST_F(WorkspaceAdmissionTest, WhenMade_KK040_KK041_WhoAndForWhomIsNotTheUsersToSay) {
  auth::UserInfo ann = member({"a", "system:masters-not", "system:kcp:admin"}, "ann");
  ann.uid = "7";
  const char* forged = R"({"username":"root","groups":["system:masters"]})";
  const auto made = [&](const auth::UserInfo& user) {
    const TestWrite write(user, "", "root");
    Json object = workspace("{}");
    object.make({"metadata", "annotations", krm::kOwnerAnnotation}) = forged;
    object.make({"metadata", "annotations", krm::kRequiredGroupsAnnotation}) = "mine";
    prepare_workspace(types_, write.context, object, nullptr);
    return object;
  };
  const Json hers = made(ann);
  EXPECT_EQ(annotation(hers, krm::kOwnerAnnotation),
            R"({"username":"ann","uid":"7","groups":["a","system:masters-not"]})");
  EXPECT_EQ(annotation(hers, krm::kRequiredGroupsAnnotation), "");
  const Json systems = made(member({"system:masters"}));
  EXPECT_EQ(annotation(systems, krm::kOwnerAnnotation), forged);
  EXPECT_EQ(annotation(systems, krm::kRequiredGroupsAnnotation), "mine");
}

TEST(OwnerAnnotation, WhenUsersAreKept_KK057_WhatPassesIsLeftOut) {
  auth::UserInfo user = member({"system:masters", "system:kcp:admin", "system:authenticated", "g",
                                "system:kcp:initializer:root:t"},
                               "a\"b");
  user.extra = {{"z.example.com/k", {"1", "2"}},
                {"authorization.kcp.io/warrant", {"{}"}},
                {"authentication.kcp.io/scopes", {"cluster:a"}},
                {"authentication.kcp.io/cluster-name", {"a"}},
                {"kcp.io/x", {"y"}},
                {"notkcp.io/x", {"y"}}};
  EXPECT_EQ(owner_annotation(user),
            R"({"username":"a\"b","groups":["system:authenticated","g"],)"
            R"("extra":{"notkcp.io/x":["y"],"z.example.com/k":["1","2"]}})");
  EXPECT_EQ(owner_annotation(member({"system:masters"}, "x")), R"({"username":"x"})");
}

}  // namespace
}  // namespace kintsugi::controlplane
