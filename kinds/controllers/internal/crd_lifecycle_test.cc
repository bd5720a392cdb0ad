#include "kinds/controllers/internal/crd_lifecycle.h"

#include "apiserver/testing/controller_server.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

class Definitions : public apiserver::ControllerTest {
 protected:
  void SetUp() override {
    controller_ = std::make_unique<CrdLifecycle>(context());
    controller_->start();
  }
  static apiserver::ObjectKey crd_key(const char* plural, const char* group = "ex.io") {
    return {"c", "apiextensions.k8s.io", "customresourcedefinitions", "",
            std::string(plural) + "." + group};
  }
  void put_crd(const char* plural, const char* kind, const char* list_kind,
               const char* short_name = "", const char* group = "ex.io") {
    Json crd = Json::object();
    crd.make({"spec", "group"}) = group;
    Json& names = crd.make({"spec", "names"});
    names["plural"] = plural;
    names["singular"] = to_lower(kind);
    names["kind"] = kind;
    names["listKind"] = list_kind;
    if (*short_name != '\0') {
      names["shortNames"] = Json::array({short_name});
    }
    crd.make({"spec", "versions"}) =
        Json::array({Json::object({{"name", "v1"}, {"served", true}, {"storage", true}})});
    server_.put(crd_key(plural, group), std::move(crd));
  }
  std::string condition(const apiserver::ObjectKey& key, const char* type) {
    const Json* object = server_.find(key);
    const Json* found = object == nullptr ? nullptr : apiserver::find_condition(*object, type);
    return found == nullptr
               ? "absent"
               : std::string(found->text({"status"})) + " " + std::string(found->text({"reason"})) +
                     " " + std::string(found->text({"message"}));
  }
  void run() { server_.run(*controller_); }
  std::unique_ptr<CrdLifecycle> controller_;
};

TEST_F(Definitions, WhenCreated_NamesAreAcceptedAndEstablished_AM380) {
  put_crd("gadgets", "Gadget", "GadgetList", "gd");
  run();
  const apiserver::ObjectKey key = crd_key("gadgets");
  EXPECT_EQ(condition(key, "NamesAccepted"), "True NoConflicts no conflicts found");
  EXPECT_EQ(condition(key, "Established"),
            "True InitialNamesAccepted the initial names have been accepted");
  const Json& crd = *server_.find(key);
  EXPECT_EQ(crd.at({"status", "acceptedNames"})->dump(),
            R"({"kind":"Gadget","listKind":"GadgetList","plural":"gadgets","shortNames":["gd"],)"
            R"("singular":"gadget"})");
  EXPECT_EQ(crd.at({"status", "storedVersions"})->dump(), R"(["v1"])");
  const int writes = server_.writes;
  run();
  EXPECT_EQ(server_.writes, writes);
}

TEST_F(Definitions, WhenNamesAreTaken_IsNotEstablishedUntilTheyAreFree_AM382) {
  put_crd("gadgets", "Gadget", "GadgetList", "gd");
  run();
  put_crd("gizmos", "Gizmo", "GadgetList", "gd");
  run();
  const apiserver::ObjectKey second = crd_key("gizmos");
  EXPECT_EQ(condition(second, "NamesAccepted"),
            "False ListKindConflict \"GadgetList\" is already in use");
  EXPECT_EQ(condition(second, "Established"), "False NotAccepted not all names are accepted");
  put_crd("gadgets", "Gadget", "GadgetList", "gd", "other.io");
  run();
  EXPECT_EQ(condition(crd_key("gadgets", "other.io"), "NamesAccepted"),
            "True NoConflicts no conflicts found");
  server_.erase(crd_key("gadgets"));
  run();
  EXPECT_EQ(condition(second, "NamesAccepted"), "True NoConflicts no conflicts found");
  EXPECT_TRUE(condition(second, "Established").starts_with("True"));
}

TEST_F(Definitions, WhenShortNamesOrKindsClash_TheReasonSaysWhich_AM382) {
  put_crd("as", "A", "AList", "x");
  run();
  put_crd("bs", "B", "BList", "x");
  put_crd("cs", "A", "CList");
  put_crd("ds", "As", "DList");
  run();
  EXPECT_EQ(condition(crd_key("bs"), "NamesAccepted"),
            "False ShortNamesConflict \"x\" is already in use");
  EXPECT_EQ(condition(crd_key("cs"), "NamesAccepted"),
            "False KindConflict \"A\" is already in use");
  EXPECT_EQ(condition(crd_key("ds"), "NamesAccepted"),
            "False SingularConflict \"as\" is already in use");
}

TEST_F(Definitions, WhenStorageMoves_StoredVersionsGrow_AM378) {
  put_crd("gadgets", "Gadget", "GadgetList");
  run();
  Json crd = *server_.find(crd_key("gadgets"));
  crd.make({"spec", "versions"}) = Json::array({Json::object({{"name", "v1"}, {"storage", false}}),
                                                Json::object({{"name", "v2"}, {"storage", true}})});
  server_.put(crd_key("gadgets"), std::move(crd));
  run();
  EXPECT_EQ(server_.find(crd_key("gadgets"))->at({"status", "storedVersions"})->dump(),
            R"(["v1","v2"])");
}

TEST_F(Definitions, WhenTheGroupIsProtected_ApprovalIsShown_AM383) {
  put_crd("gadgets", "Gadget", "GadgetList", "", "x.k8s.io");
  run();
  const apiserver::ObjectKey key = crd_key("gadgets", "x.k8s.io");
  Json crd = *server_.find(key);
  crd.make({"metadata", "annotations", "api-approved.kubernetes.io"}) = "https://x";
  server_.put(key, std::move(crd));
  run();
  EXPECT_EQ(condition(key, "KubernetesAPIApprovalPolicyConformant"),
            "True ApprovedAnnotation approved in https://x");
}

TEST_F(Definitions, WhenDeleted_InstancesGoFirst_AM385_AM386) {
  put_crd("gadgets", "Gadget", "GadgetList");
  run();
  const apiserver::ObjectKey held = {"c", "ex.io", "gadgets", "t1", "held"};
  const apiserver::ObjectKey plain = {"c", "ex.io", "gadgets", "t1", "plain"};
  const apiserver::ObjectKey elsewhere = {"other", "ex.io", "gadgets", "t1", "plain"};
  server_.put(held, R"({"metadata":{"finalizers":["a.b/c"]}})");
  server_.put(plain);
  server_.put(elsewhere);
  Json crd = *server_.find(crd_key("gadgets"));
  crd.make({"metadata", "finalizers"}) =
      Json::array({"customresourcecleanup.apiextensions.k8s.io"});
  server_.put(crd_key("gadgets"), std::move(crd));
  server_.erase(crd_key("gadgets"));
  run();
  EXPECT_EQ(server_.find(plain), nullptr);
  ASSERT_NE(server_.find(crd_key("gadgets")), nullptr);
  EXPECT_TRUE(
      condition(crd_key("gadgets"), "Terminating").starts_with("True InstanceDeletionInProgress"));
  Json object = *server_.find(held);
  EXPECT_TRUE(apiserver::is_deleted(object));
  apiserver::drop_finalizer(object, "a.b/c");
  server_.put(held, std::move(object));
  run();
  EXPECT_EQ(server_.find(held), nullptr);
  EXPECT_EQ(server_.find(crd_key("gadgets")), nullptr);
  EXPECT_NE(server_.find(elsewhere), nullptr);
}

}  // namespace
}  // namespace kintsugi::kinds
