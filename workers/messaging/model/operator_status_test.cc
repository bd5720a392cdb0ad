#include <gtest/gtest.h>

#include <memory>

#include "workers/messaging/model/address_status.h"
#include "workers/messaging/model/infra_status.h"

namespace kintsugi::workers {
namespace {

using krm::Json;
constexpr std::string_view kNow = "2026-01-02T03:04:05Z";

std::string told(const Json& status, std::string_view type) {
  const Json* one = find_condition(status, type);
  return one == nullptr
             ? "none"
             : std::string(one->text({"status"})) + "/" + std::string(one->text({"reason"})) +
                   ": " + std::string(one->text({"message"}));
}

Condition refused(std::string_view type, std::string_view reason) {
  Condition out;
  out.type = type;
  out.status = ConditionStatus::kFalse;
  out.reason = reason;
  out.message = "interconnects: HTTP 404";
  return out;
}

TEST(InfraStatus, MR_19_WhyNoOperatorIsTold) {
  MessagingInfra infra;
  infra.routers.groups = {{"default", 1}};
  InfraStatusInput input;
  input.infra = &infra;
  input.routers_wanted = 1;
  input.routers_refused = refused("RoutersCreated", "OperatorNotInstalled");
  input.brokers_refused = refused("BrokersCreated", "OperatorNotInstalled");
  Json status = infra_status(input, Json::object(), kNow);
  EXPECT_EQ(told(status, "RoutersCreated"), "False/OperatorNotInstalled: interconnects: HTTP 404");
  EXPECT_EQ(told(status, "BrokersCreated"), "True/BrokersCreated: ") << "none is wanted";
  const RouterView router{"r0", "default", true, true, 0, 0, kNow, "", "", true};
  const RouterView list[] = {router};
  input.routers = list;
  status = infra_status(input, status, kNow);
  EXPECT_EQ(told(status, "RoutersCreated"), "True/RoutersCreated: ");
  EXPECT_EQ(status.find("routers")->items()[0].text({"lastSync"}), kNow);
}

TEST(InfraStatus, MS_001_CertificatesOfRoutersAreToldOf) {
  MessagingInfra infra;
  infra.routers.groups = {{"default", 1}};
  const RouterView router{"r0", "default", true, true, 0, 0, kNow, "", "", true};
  const RouterView list[] = {router};
  InfraStatusInput input;
  input.infra = &infra;
  input.routers_wanted = 1;
  input.routers = list;
  Json status = infra_status(input, Json::object(), kNow);
  EXPECT_EQ(told(status, "CaCreated"), "True/NotManaged: ");
  EXPECT_EQ(told(status, "CertCreated"), "True/NotManaged: ");
  input.makes_certificates = true;
  EXPECT_EQ(told(infra_status(input, status, kNow), "CaCreated"), "True/NotManaged: ")
      << "a worker that has just begun takes nothing back";
  status = infra_status(input, Json::object(), kNow);
  EXPECT_EQ(told(status, "CertCreated"), "False/Waiting: it is not written yet");
  EXPECT_EQ(told(status, "Ready"), "False/NotReady: it is not written yet");
  const Condition ca = refused("CaCreated", "Forbidden");
  input.ca_created = &ca;
  status = infra_status(input, status, kNow);
  EXPECT_EQ(told(status, "CaCreated"), "False/Forbidden: interconnects: HTTP 404");
  EXPECT_EQ(told(status, "Ready"), "False/NotReady: interconnects: HTTP 404");
}

TEST(AddressStatus, MS_074_ForwardersAreToldOf) {
  MessagingAddress address;
  address.type = AddressType::kAnycast;
  address.extras = std::make_unique<AddressExtras>();
  address.extras->forwarders = {{"f", "remote", "a", true}};
  ComponentView router;
  router.host = "r0";
  router.connected = true;
  router.progress.wanted = router.progress.applied = 2;
  router.progress.links = router.progress.active = 1;
  AddressStatusInput input;
  input.address = &address;
  input.space_id = "s";
  input.space_kind = "Space";
  input.space_ready = true;
  input.components = {&router, 1};
  Json status = address_status(input, Json::object(), kNow);
  EXPECT_EQ(status.find("forwarders")->dump(), R"([{"isReady":true,"messages":[],"name":"f"}])");
  router.progress.active = 0;
  status = address_status(input, status, kNow);
  EXPECT_EQ(status.find("forwarders")->dump(),
            R"([{"isReady":false,"messages":["no active link on router r0"],"name":"f"}])");
  address.extras->forwarders.clear();
  status = address_status(input, status, kNow);
  EXPECT_EQ(status.find("forwarders"), nullptr);
}

}  // namespace
}  // namespace kintsugi::workers
