#include "controlplane/admission/definition_admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controlplane/testing/write.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::member;

/// The APIBindings of the logical cluster "abc".
class Bindings final : public testing::NothingStored {
 public:
  void list(std::string_view cluster, std::string_view group, std::string_view resource,
            std::string_view, const std::function<bool(const Json&)>& visit) const override {
    if (cluster != "abc" || group != "apis.kcp.io" || resource != "apibindings") {
      return;
    }
    for (const Json& one : stored) {
      if (!visit(one)) {
        return;
      }
    }
  }
  std::vector<Json> stored;
};

Json binding(const char* name, const std::string& bound) {
  return *Json::parse(R"({"metadata": {"name": ")" + std::string(name) +
                      R"("}, "status": {"boundResources": )" + bound + "}}");
}

TEST(ResourceLocks, WhenDefined_KK226_WhatABindingHasIsRefused) {
  Bindings bindings;
  bindings.stored = {
      *Json::parse(R"({"metadata": {"name": "young"}})"),
      binding("others", R"([{"group": "ex.io", "resource": "gadgets"}])"),
      binding("first",
              R"([{"group": "", "resource": "a"}, {"group": "ex.io", "resource": "widgets"}])"),
      binding("second", R"([{"group": "ex.io", "resource": "widgets"}])")};
  auto def = std::make_shared<apiserver::ResourceDef>();
  def->group = "apiextensions.k8s.io";
  def->plural = "customresourcedefinitions";
  int asked = 0;
  def->hooks.approve = [&asked](const apiserver::WriteContext&, const Json*, const Json*,
                                const apiserver::Hooks::AdmitDone& done) {
    ++asked;
    done({});
  };
  const apiserver::ResourcePtr guarded = with_resource_locks(def);

  struct Case {
    const char* group;
    const char* plural;
    const char* cluster;
    const char* part;
    bool is_new, dry_run;
    const char* user;
    bool refused;
  };
  for (const Case& one : std::vector<Case>{
           {"ex.io", "widgets", "abc", "", true, false, "devs", true},
           {"ex.io", "widgets", "abc", "", true, true, "devs", true},
           {"ex.io", "widgets", "abc", "", true, false, "system:masters", true},
           {"ex.io", "widgets", "abc", "", false, false, "devs", false},
           {"ex.io", "widgets", "abc", "status", true, false, "devs", false},
           {"ex.io", "widgets", "other", "", true, false, "devs", false},
           {"ex.io", "widgets", "system:bound-crds", "", true, false, "system:masters", false},
           {"other.io", "widgets", "abc", "", true, false, "devs", false},
           {"ex.io", "things", "abc", "", true, false, "devs", false}}) {
    const auth::UserInfo user = member({one.user});
    std::vector<std::string> warnings;
    const apiserver::WriteContext context{user,        one.cluster, "create", one.part,
                                          one.dry_run, bindings,    warnings};
    const Json object =
        *Json::parse(R"({"metadata": {"name": "n"}, "spec": {"group": ")" + std::string(one.group) +
                     R"(", "names": {"plural": ")" + one.plural + R"("}}})");
    std::string text = "no answer";
    asked = 0;
    guarded->hooks.approve(context, &object, one.is_new ? nullptr : &object,
                           [&](Expected<void> result) { text = testing::text_of(result); });
    EXPECT_EQ(text, one.refused ? "customresourcedefinitions.apiextensions.k8s.io \"n\" is "
                                  "forbidden: cannot create because resource is bound by "
                                  "APIBinding \"first\""
                                : "");
    EXPECT_EQ(asked, one.refused ? 0 : 1);
  }
  std::vector<std::string> warnings;
  const auth::UserInfo user = member({"devs"});
  const apiserver::WriteContext deleting{user, "abc", "delete", "", false, bindings, warnings};
  const Json object = *Json::parse(R"({"metadata": {"name": "widgets.ex.io"}})");
  std::string text = "no answer";
  guarded->hooks.approve(deleting, nullptr, &object,
                         [&](Expected<void> result) { text = testing::text_of(result); });
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace kintsugi::controlplane
