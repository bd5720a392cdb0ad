#include "controlplane/admission/workspace_type_admission.h"

#include <gtest/gtest.h>

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

class WorkspaceTypeAdmissionTest : public ::testing::Test {
 protected:
  WorkspaceTypeAdmissionTest() {
    Json cluster = Json::object();
    cluster.make({"metadata", "annotations", krm::kPathAnnotation}) = "root:prov";
    cluster.make({"status", "phase"}) = "Ready";
    index_.put_cluster("prov", &cluster);
    Json workspace = Json::object();
    workspace.make({"spec", "cluster"}) = "prov";
    index_.put_workspace("root", "prov", &workspace);
    Json root = Json::object();
    root.make({"metadata", "annotations", krm::kPathAnnotation}) = "root";
    root.make({"status", "phase"}) = "Ready";
    index_.put_cluster("root", &root);
  }
  static Json type(const std::string& spec, const char* name = "t") {
    Expected<Json> parsed = Json::parse(R"({"metadata": {"name": ")" + std::string(name) +
                                        R"("}, "spec": )" + spec + "}");
    EXPECT_TRUE(parsed) << spec;
    return parsed ? std::move(*parsed) : Json();
  }
  std::string approve(const Json& now, const Json* old = nullptr) {
    const TestWrite write(member({"devs"}));
    std::string text = "no answer";
    approve_workspace_type(index_, catalog_, rights_, write.context, &now, old,
                           [&](Expected<void> result) { text = text_of(result); });
    return text;
  }
  static std::string admit(const char* name, std::string cluster) {
    const TestWrite write(member({"system:masters"}), "", std::move(cluster));
    const Json object = type("{}", name);
    std::string text = "no answer";
    admit_workspace_type(write.context, &object, nullptr,
                         [&](Expected<void> result) { text = text_of(result); });
    return text;
  }
  static std::string refused(const std::string& text, const char* name = "t") {
    return "workspacetypes.tenancy.kcp.io \"" + std::string(name) + "\" is forbidden: " + text;
  }
  static std::string no_bind(const std::string& name) {
    return refused("unable to create or update WorkspaceType: no permission to bind to export " +
                   name);
  }
  static std::string binds(const std::string& list) {
    return R"({"defaultAPIBindings": [)" + list + "]}";
  }

  ClusterIndex index_;
  ApiCatalog catalog_;
  ListedRights rights_;
};

TEST_F(WorkspaceTypeAdmissionTest, WhenNamesAreReserved_KK070_KK071_NobodyGivesThem) {
  for (const char* name : {"any", "system"}) {
    EXPECT_EQ(admit(name, "root"), refused("metadata.name: Invalid value: \"" + std::string(name) +
                                               "\": name is reserved",
                                           name));
  }
  EXPECT_EQ(admit("root", "abc"),
            refused("root workspace type can only be created in root cluster", "root"));
  EXPECT_EQ(admit("root", "root"), "");
  EXPECT_EQ(admit("anything", "abc"), "");
}

TEST_F(WorkspaceTypeAdmissionTest, WhenPathsAreMissing_KK072_KKT040_SaysWhich) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"defaultChildWorkspaceType": {"name": "a"}})",
       ".spec.defaultChildWorkspaceType.path must be set"},
      {R"({"limitAllowedChildren": {"types": [{"name": "a", "path": "root"}, {"name": "b"}]}})",
       ".spec.limitAllowedChildren.types[1].path must be set"},
      {R"({"limitAllowedParents": {"types": [{"name": "a"}]}})",
       ".spec.limitAllowedParents.types[0].path must be set"}};
  const Json before = type("{}");
  for (const auto& [spec, text] : cases) {
    EXPECT_EQ(approve(type(spec)), refused(text));
    EXPECT_EQ(approve(type(spec), &before), refused(text));
    const Json same = type(spec);
    EXPECT_EQ(approve(type(spec), &same), "") << "as it is stored";
  }
}

TEST_F(WorkspaceTypeAdmissionTest, WhenABindingIsAdded_KK073_KKT041_NeedsTheRightToBind) {
  const Json wants =
      type(binds(R"({"path": "root:prov", "export": "a"}, {"path": "root", "export": "b"})"));
  EXPECT_EQ(approve(wants), no_bind("root:prov:a"));
  rights_.allowed_texts = {"prov bind apis.kcp.io/apiexports/a"};
  EXPECT_EQ(approve(wants), no_bind("root:b"));
  rights_.allowed_texts.emplace_back("root bind apis.kcp.io/apiexports/b");
  EXPECT_EQ(approve(wants), "");
  const Json own = type(binds(R"({"export": "c"})"));
  EXPECT_EQ(approve(own), no_bind("c"));
  rights_.allowed_texts = {"abc bind apis.kcp.io/apiexports/c"};
  EXPECT_EQ(approve(own), "");
}

TEST_F(WorkspaceTypeAdmissionTest, WhenNobodyCanTell_KK073_TheTextIsTheSame) {
  const std::size_t asked = rights_.questions.size();
  EXPECT_EQ(approve(type(binds(R"({"path": "root:nowhere", "export": "a"})"))),
            no_bind("root:nowhere:a"));
  EXPECT_EQ(rights_.questions.size(), asked);
  rights_.unreachable = true;
  EXPECT_EQ(approve(type(binds(R"({"path": "root:prov", "export": "a"})"))),
            no_bind("root:prov:a"));
}

TEST_F(WorkspaceTypeAdmissionTest, WhenAnOldEntryStays_KK073_KKT041_NobodyIsAskedAgain) {
  const Json old = type(binds(R"({"path": "root:prov", "export": "a"})"));
  EXPECT_EQ(approve(old, &old), "");
  EXPECT_TRUE(rights_.questions.empty());
  const Json more =
      type(binds(R"({"path": "root:prov", "export": "a"}, {"path": "root:prov", "export": "b"})"));
  EXPECT_EQ(approve(more, &old), no_bind("root:prov:b"));
  EXPECT_EQ(rights_.questions, std::vector<std::string>{"prov bind apis.kcp.io/apiexports/b"});
}

}  // namespace
}  // namespace kintsugi::controlplane
