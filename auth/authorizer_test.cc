#include "auth/authorizer.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

Attributes alice(const char* verb, const char* resource) {
  Attributes attributes;
  attributes.user.name = "alice";
  attributes.verb = verb;
  attributes.resource = resource;
  return attributes;
}

TEST(Denied, WhenACollectionIsMeant_NamesTheNamespace_AM014) {
  Attributes attributes = alice("list", "configmaps");
  attributes.ns = "t1";
  const Error error = denied(attributes, {});
  EXPECT_EQ(error.message(),
            "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API "
            "group \"\" in the namespace \"t1\"");
  EXPECT_EQ(error.code(), Errc::kForbidden);
  EXPECT_EQ(error.detail().kind, "configmaps");
  EXPECT_EQ(error.detail().name, "");
}

TEST(Denied, WhenClusterScoped_SaysSo_AM015) {
  EXPECT_EQ(denied(alice("list", "namespaces"), {}).message(),
            "namespaces is forbidden: User \"alice\" cannot list resource \"namespaces\" in API "
            "group \"\" at the cluster scope");
}

TEST(Denied, WhenASubresourceIsMeant_ShowsItOnce_AM016) {
  Attributes attributes = alice("patch", "widgets");
  attributes.subresource = "status";
  attributes.group = "ex.io";
  attributes.name = "ww";
  attributes.ns = "t1";
  const Error error = denied(attributes, {});
  EXPECT_EQ(error.message(),
            "widgets.ex.io \"ww\" is forbidden: User \"alice\" cannot patch resource "
            "\"widgets/status\" in API group \"ex.io\" in the namespace \"t1\"");
  EXPECT_EQ(error.detail().kind, "widgets");
  EXPECT_EQ(error.detail().group, "ex.io");
  EXPECT_EQ(error.detail().name, "ww");
}

TEST(Denied, WhenOneNamespaceIsMeant_ItIsItsOwnNamespace_AM017) {
  Attributes attributes = alice("get", "namespaces");
  attributes.name = attributes.ns = "t1";
  EXPECT_EQ(denied(attributes, {}).message(),
            "namespaces \"t1\" is forbidden: User \"alice\" cannot get resource \"namespaces\" in "
            "API group \"\" in the namespace \"t1\"");
}

TEST(Denied, WhenAPathIsMeant_HasNoDetails_AM018_AM019) {
  Attributes attributes = alice("get", "");
  attributes.is_resource = false;
  attributes.path = "/metrics";
  const Error error = denied(attributes, {false, "access denied"});
  EXPECT_EQ(error.message(),
            "forbidden: User \"alice\" cannot get path \"/metrics\": access denied");
  EXPECT_EQ(error.detail().kind, "");
}

TEST(Denied, WhenTheTextHoldsMarkup_ItIsEscaped) {
  Attributes attributes = alice("get", "");
  attributes.user.name = "<b>&";
  attributes.is_resource = false;
  attributes.path = "/";
  EXPECT_EQ(denied(attributes, {}).message(),
            "forbidden: User \"&lt;b&gt;&amp;\" cannot get path \"/\"");
}

}  // namespace
}  // namespace kintsugi::auth
