#include "workers/messaging/control/internal/tenant_wish.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using Kind = TenantStep::Kind;

krm::Json a_namespace(std::string_view messaging, std::string_view plan = {}) {
  krm::Json out = krm::Json::object();
  out["metadata"]["name"] = "ns";
  out["metadata"]["annotations"]["enmasse.io/messaging"] = messaging;
  if (!plan.empty()) {
    out["metadata"]["annotations"]["enmasse.io/messaging-plan"] = plan;
  }
  return out;
}

/// The tenant as the API server would give back what was made.
MessagingSpace as_tenant(const std::string& body) {
  krm::Json object = *krm::Json::parse(body);
  object["metadata"]["uid"] = "uid-t";
  return parse_space(object).object;
}

struct TenantWishTest : ::testing::Test {
  std::optional<MessagingSpace> wanted;
  TenantWish wish;
  TenantWishTest() {
    wish.cluster = "c";
    wish.ns = "ns";
    wish.uid = "uid-n";
  }
  void annotate(const krm::Json& ns) {
    wanted = tenant_of_namespace(ns, &wish.unknown_value);
    wish.wanted = wanted ? &*wanted : nullptr;
  }
};

TEST_F(TenantWishTest, MS_027_AnnotationMakesChangesAndRemovesTheTenant) {
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
  annotate(a_namespace("true", "gold"));
  const TenantStep made = tenant_step(wish);
  ASSERT_EQ(made.kind, Kind::kCreate);
  const krm::Json object = *krm::Json::parse(made.body);
  EXPECT_EQ(object.text({"kind"}), "MessagingTenant");
  EXPECT_EQ(object.text({"metadata", "name"}), "default");
  EXPECT_EQ(object.text({"spec", "messagingPlanRef", "name"}), "gold");
  EXPECT_EQ(object.at({"spec", "authenticationService"}), nullptr);
  const krm::Json& owner = object.at({"metadata", "ownerReferences"})->items()[0];
  EXPECT_EQ(owner.text({"kind"}), "Namespace");
  EXPECT_EQ(owner.text({"uid"}), "uid-n");
  const MessagingSpace tenant = as_tenant(made.body);
  EXPECT_TRUE(tenant.owned);
  wish.tenant = &tenant;
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
  annotate(a_namespace("true"));
  const TenantStep changed = tenant_step(wish);
  ASSERT_EQ(changed.kind, Kind::kPatch);
  EXPECT_EQ(changed.body, R"({"spec":{"authenticationService":null,"messagingPlanRef":null}})");
  annotate(a_namespace("false"));
  const TenantStep removed = tenant_step(wish);
  ASSERT_EQ(removed.kind, Kind::kDelete);
  EXPECT_EQ(krm::Json::parse(removed.body)->text({"preconditions", "uid"}), "uid-t");
  wish.tenant_deleting = true;
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
}

TEST_F(TenantWishTest, MS_027_ExplicitTenantWins) {
  annotate(a_namespace("true", "gold"));
  MessagingSpace tenant;
  tenant.owned = false;
  wish.tenant = &tenant;
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
  annotate(a_namespace("false"));
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
  // So does a project: an owned tenant beside it goes.
  wish.tenant = nullptr;
  wish.project = true;
  annotate(a_namespace("true"));
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
  tenant.owned = true;
  wish.tenant = &tenant;
  EXPECT_EQ(tenant_step(wish).kind, Kind::kDelete);
}

TEST_F(TenantWishTest, MS_027_UnknownValueChangesNothing) {
  annotate(a_namespace("yes"));
  EXPECT_TRUE(wish.unknown_value);
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
  MessagingSpace tenant;
  tenant.owned = true;
  wish.tenant = &tenant;
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
  wish.unknown_value = false;
  wish.deleting = true;
  EXPECT_EQ(tenant_step(wish).kind, Kind::kNothing);
}

}  // namespace
}  // namespace kintsugi::workers
