#include "controlplane/views/internal/claims.h"

#include <gtest/gtest.h>

namespace kintsugi::controlplane {
namespace {

using krm::Json;

PermissionClaim claim(const char* text) {
  const Json list = *Json::parse("[" + std::string(text) + "]");
  return parse_claims(&list).at(0);
}

// Vectors of kcp's own tests.
TEST(PermissionClaim, WhenNamedInLabels_AM508_HasTheValuesOfKcp) {
  const ExportRef tenancy{"root", "tenancy.kcp.io"};
  const ExportRef mine{"abcd1234", "my-export"};
  EXPECT_EQ(claim_label_key(tenancy),
            "claimed.internal.apis.kcp.io/bmCdly9xXiUpEHe3ypvDwvXMTfoVZUE92mqAQf");
  EXPECT_EQ(claim_label_key(mine),
            "claimed.internal.apis.kcp.io/phGj1BkmdNY3LKTrtFc1KGLYTBs8Nt50p8PIU");
  EXPECT_EQ(claim_label_value(claim(R"({"group":"","resource":"configmaps","verbs":["get"]})")),
            "3QVjs6pfBjMpLEVYYhysJnroYGsQGlWm05E4qe");
  EXPECT_EQ(claim_label_value(
                claim(R"({"group":"apps","resource":"deployments","identityHash":"deadbeef"})")),
            "4CpOMiJ5JL9ZC4cG8ne7nGNQbSOEUiwZ89KHal");
  EXPECT_EQ(export_label_value(tenancy), "bmCdly9xXiUpEHe3ypvDwvXMTfoVZUE92mqAQf");
}

TEST(PermissionClaim, WhenRead_AM507_KeepsVerbsStateAndSelector) {
  const PermissionClaim all = claim(
      R"({"resource":"secrets","verbs":["get","list"],"state":"Accepted","selector":{"matchAll":true}})");
  EXPECT_TRUE(all.accepted);
  EXPECT_TRUE(all.selector.empty());
  EXPECT_TRUE(all.has_verb("get"));
  EXPECT_FALSE(all.has_verb("delete"));
  const PermissionClaim some = claim(
      R"({"resource":"secrets","verbs":["*"],"state":"Rejected","selector":{"matchLabels":{"a":"b"}}})");
  EXPECT_FALSE(some.accepted);
  EXPECT_TRUE(some.has_verb("delete"));
  EXPECT_EQ(some.match_labels.text({"a"}), "b");
  EXPECT_TRUE(some.selector.matches(*Json::parse(R"({"a":"b"})")));
  EXPECT_FALSE(some.selector.matches(*Json::parse(R"({"a":"c"})")));
}

TEST(PermissionClaim, WhenSelectorIsNonsense_TP066_MatchesNothing) {
  const PermissionClaim bad = claim(
      R"({"resource":"secrets","selector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}})");
  EXPECT_FALSE(bad.selector.empty());
  EXPECT_FALSE(bad.selector.matches(Json::object()));
  EXPECT_FALSE(bad.selector.matches(*Json::parse(R"({"a":"b","none":"x","claimed":"x"})")));
}

TEST(PermissionClaim, WhenIdentitiesDiffer_AM507_IsAboutSomethingElse) {
  const PermissionClaim sheriffs =
      claim(R"({"group":"wild.west","resource":"sheriffs","identityHash":"h1"})");
  EXPECT_TRUE(sheriffs.is_about("wild.west", "sheriffs", "h1", {}));
  EXPECT_FALSE(sheriffs.is_about("wild.west", "sheriffs", "h2", {}));
  EXPECT_FALSE(sheriffs.is_about("wild.west", "sheriffs", "", {}));
  EXPECT_FALSE(sheriffs.is_about("wild.east", "sheriffs", "h1", {}));
  const PermissionClaim workspaces =
      claim(R"({"group":"tenancy.kcp.io","resource":"workspaces","identityHash":"root"})");
  const IdentityCheck in_root = [](std::string_view, std::string_view, std::string_view hash) {
    return hash == "root";
  };
  EXPECT_TRUE(workspaces.is_about("tenancy.kcp.io", "workspaces", "", in_root));
  EXPECT_FALSE(sheriffs.is_about("wild.west", "sheriffs", "", in_root));
}

TEST(PermissionClaim, WhenAboutEvents_BothGroupsAreOne) {
  const PermissionClaim core = claim(R"({"group":"","resource":"events"})");
  const PermissionClaim events = claim(R"({"group":"events.k8s.io","resource":"events"})");
  for (const char* group : {"", "events.k8s.io"}) {
    EXPECT_TRUE(core.is_about(group, "events", "", {}));
    EXPECT_TRUE(events.is_about(group, "events", "", {}));
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
