#include "workers/messaging/control/internal/end_reports.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "workers/messaging/model/claims.h"

namespace kintsugi::workers {
namespace {

constexpr std::string_view kNow = "2030-01-01T00:00:00Z";

std::string_view status_of(const krm::Json& status, std::string_view type) {
  const krm::Json* const one = find_condition(status, type);
  return one == nullptr ? "" : one->text({"status"});
}
std::string_view reason_of(const krm::Json& status, std::string_view type) {
  const krm::Json* const one = find_condition(status, type);
  return one == nullptr ? "" : one->text({"reason"});
}

ComponentView router(std::string_view host, bool connected = true, std::uint32_t wanted = 1,
                     std::uint32_t applied = 1, std::string error = {}) {
  ComponentView out;
  out.host = host;
  out.connected = connected;
  out.progress.wanted = wanted;
  out.progress.applied = applied;
  out.progress.error = std::move(error);
  return out;
}

struct ConnectorReportTest : ::testing::Test {
  MessagingConnector connector;
  ConnectorReport report;
  std::vector<ComponentView> routers{router("r0"), router("r1")};
  std::vector<ConnectorView::AtRouter> links{{"r0", true, ""}, {"r1", true, ""}};
  ConnectorReportTest() {
    connector.id = {"c", "ns", "remote", "uid", 0, 4};
    report.connector = &connector;
    report.min_ready = 2;
  }
  krm::Json status(const krm::Json& from = krm::Json::object(),
                   const Redactor* redactor = nullptr) {
    report.routers = routers;
    report.links = links;
    return connector_status(report, from, kNow, redactor);
  }
};

TEST_F(ConnectorReportTest, MS_072_ReadyWhenCreatedAndConnected) {
  const krm::Json said = status();
  for (const std::string_view type : connector_condition_order()) {
    EXPECT_EQ(status_of(said, type), "True") << type;
  }
  EXPECT_EQ(said.text({"phase"}), "Active");
  EXPECT_EQ(said.find("message"), nullptr);
  EXPECT_EQ(said.find("observedGeneration")->as_integer(), 4);
  EXPECT_EQ(said.find("routers")->size(), 2U);
  EXPECT_EQ(status(said), said);  // nothing to be written
}

TEST_F(ConnectorReportTest, MS_072_UnreachableThenUp) {
  links = {{"r0", false, "refused marvin"}, {"r1", false, ""}};
  Redactor redactor;
  redactor.know("u", Secret::copy_of("marvin"));
  krm::Json said = status(krm::Json::object(), &redactor);
  EXPECT_EQ(status_of(said, "Created"), "True");
  EXPECT_EQ(status_of(said, "Connected"), "False");
  EXPECT_EQ(status_of(said, "Ready"), "False");
  EXPECT_EQ(said.text({"phase"}), "Configuring");
  EXPECT_EQ(said.text({"message"}), "not connected at router r0: refused ***");
  EXPECT_EQ(said.dump().find("marvin"), std::string::npos);
  links[1].connected = true;  // one router is enough
  said = status(said, &redactor);
  EXPECT_EQ(status_of(said, "Ready"), "True");
  EXPECT_EQ(reason_of(said, "Connected"), "Degraded");
  links.clear();
  EXPECT_EQ(status_of(status(said), "Connected"), "Unknown");
}

TEST_F(ConnectorReportTest, MS_073_InvalidIsFailed) {
  std::vector<Condition> conditions(1);
  conditions[0].type = "Validated";
  conditions[0].status = ConditionStatus::kFalse;
  conditions[0].reason = "InvalidField";
  conditions[0].message = "spec.addresses[0].pattern: must be words";
  report.conditions = &conditions;
  routers.clear();
  links.clear();
  const krm::Json said = status();
  EXPECT_EQ(reason_of(said, "Validated"), "InvalidField");
  EXPECT_EQ(reason_of(said, "Created"), "NotValidated");
  EXPECT_EQ(said.text({"phase"}), "Failed");
  EXPECT_EQ(said.text({"message"}), conditions[0].message);
}

TEST_F(ConnectorReportTest, MS_058_RefusedByARouterSaysWhich) {
  routers = {router("r0"), router("r1", true, 3, 2, "connector x: bad role")};
  krm::Json said = status();
  EXPECT_EQ(status_of(said, "Created"), "False");
  EXPECT_EQ(said.text({"message"}), "router r1: connector x: bad role");
  report.min_ready = 1;
  said = status();
  EXPECT_EQ(status_of(said, "Created"), "True");
  EXPECT_EQ(reason_of(said, "Created"), "Degraded");
  report.space_message = "the namespace has no tenant";
  EXPECT_EQ(reason_of(status(), "Created"), "TenantNotReady");
  report.deleting = true;
  EXPECT_EQ(status().text({"phase"}), "Terminating");
}

struct EndpointReportTest : ::testing::Test {
  MessagingEndpoint endpoint;
  PartState state;
  EndpointReport report;
  std::vector<ComponentView> routers{router("r0", true, 3, 3)};
  EndpointReportTest() {
    endpoint.id = {"c", "ns", "front", "uid", 0, 2};
    endpoint.name = "front";
    endpoint.protocols = {Protocol::kAmqp, Protocol::kAmqps};
    endpoint.tls = MessagingEndpoint::Tls::kSelfsigned;
    state.profile = "abc";
    state.authority = "CA PEM";
    state.ends = 1'893'456'000;
    state.ports = {{Protocol::kAmqp, 40'000}, {Protocol::kAmqps, 40'001}};
    report.endpoint = &endpoint;
    report.project = "default";
    report.project_ready = true;
    report.host = "space-1.example";
    report.state = &state;
  }
  krm::Json status(const krm::Json& from = krm::Json::object()) {
    report.routers = routers;
    return endpoint_status(report, from, kNow);
  }
};

TEST_F(EndpointReportTest, MS_068_OwnListeners) {
  const krm::Json said = status();
  for (const std::string_view type :
       {"FoundProject", "ConfiguredTLS", "AllocatedPorts", "Created", "Ready"}) {
    EXPECT_EQ(status_of(said, type), "True") << type;
  }
  EXPECT_EQ(said.text({"phase"}), "Active");
  EXPECT_EQ(said.text({"host"}), "space-1.example");
  EXPECT_EQ(said.text({"tls", "caCertificate"}), "CA PEM");
  EXPECT_EQ(said.text({"tls", "notAfter"}), "2030-01-01T00:00:00Z");
  EXPECT_EQ(said.find("ports")->items()[1].find("port")->as_integer(), 5671);
  EXPECT_EQ(status(said), said);
}

TEST_F(EndpointReportTest, MS_068_WaitsForCertificateAndPorts) {
  state.profile.clear();
  krm::Json said = status();
  EXPECT_EQ(reason_of(said, "ConfiguredTLS"), "WaitingForCertificate");
  EXPECT_EQ(status_of(said, "Created"), "False");
  state.profile = "abc";
  state.ports.pop_back();
  said = status();
  EXPECT_EQ(reason_of(said, "AllocatedPorts"), "Pending");
  EXPECT_EQ(status_of(said, "Ready"), "False");
}

TEST_F(EndpointReportTest, MS_070_SharedNeedsNothingOfItsOwn) {
  endpoint.protocols = {Protocol::kAmqp};
  report.state = nullptr;
  routers.clear();
  krm::Json said = status();
  EXPECT_EQ(reason_of(said, "AllocatedPorts"), "Shared");
  EXPECT_EQ(status_of(said, "ServiceCreated"), "True");
  EXPECT_EQ(status_of(said, "Ready"), "True");
  report.project_ready = false;
  said = status();
  EXPECT_EQ(reason_of(said, "Ready"), "ProjectNotReady");
  report.project = "";
  said = status();
  EXPECT_EQ(status_of(said, "FoundProject"), "False");
  EXPECT_EQ(reason_of(said, "Ready"), "NotFound");
}

TEST_F(EndpointReportTest, MS_069_MS_070_ReasonsAreTold) {
  Condition exhausted;
  exhausted.type = "AllocatedPorts";
  exhausted.status = ConditionStatus::kFalse;
  exhausted.reason = "PortsExhausted";
  report.refused = exhausted;
  EXPECT_EQ(reason_of(status(), "Ready"), "PortsExhausted");
  report.refused = host_conflict("space-1.example", "other");
  EXPECT_EQ(reason_of(status(), "Ready"), "HostConflict");
  report.refused.reset();
  const auto parsed = parse_endpoint(*krm::Json::parse(
      R"({"metadata":{"name":"e"},"spec":{"protocols":["AMQPS"],"cluster":{}}})"));
  EXPECT_FALSE(parsed.valid);
  report.endpoint = &parsed.object;
  report.conditions = &parsed.conditions;
  const krm::Json said = status();
  EXPECT_EQ(reason_of(said, "ConfiguredTLS"), "TlsRequired");
  EXPECT_EQ(said.text({"phase"}), "Failed");
}

TEST(MessagingExports, MS_090_ConfigMapAndSecretSayHostPortsAndCa) {
  MessagingEndpoint endpoint;
  endpoint.id = {"c", "ns", "space", "uid-s", 0, 1};
  endpoint.protocols = {Protocol::kAmqps};
  MessagingEndpoint::Export what;
  what.name = "coordinates";
  const ExportInput input{
      &endpoint, &what, "h.example", external_ports(endpoint), {{Protocol::kAmqps, 40'001}},
      "CA PEM"};
  const krm::Json map = export_object(input);
  EXPECT_EQ(map.text({"kind"}), "ConfigMap");
  EXPECT_EQ(map.text({"metadata", "namespace"}), "ns");
  EXPECT_EQ(map.find("metadata")->find("ownerReferences")->items()[0].text({"uid"}), "uid-s");
  EXPECT_EQ(map.text({"data", "service.host"}), "h.example");
  EXPECT_EQ(map.text({"data", "service.port.amqps"}), "5671");
  EXPECT_EQ(map.text({"data", "listener.port.amqps"}), "40001");
  EXPECT_EQ(map.text({"data", "ca.crt"}), "CA PEM");
  what.kind = MessagingEndpoint::Export::Kind::kSecret;
  const krm::Json secret = export_object(input);
  EXPECT_EQ(secret.text({"kind"}), "Secret");
  EXPECT_EQ(secret.text({"data", "ca.crt"}), base64_encode("CA PEM"));
  EXPECT_EQ(export_resource(what.kind), "secrets");
  EXPECT_EQ(export_resource(MessagingEndpoint::Export::Kind::kService), "");
}

TEST(MessagingExports, MS_090_WhatIsThereIsChangedOnlyWhereItDiffers) {
  MessagingEndpoint endpoint;
  MessagingEndpoint::Export what;
  what.name = "x";
  const krm::Json wanted = export_object({&endpoint, &what, "h", {}, {}, ""});
  EXPECT_TRUE(is_our_export(wanted));
  EXPECT_FALSE(export_patch(wanted, wanted));
  krm::Json has = wanted;
  has["data"]["ca.crt"] = "old";
  const auto patch = export_patch(has, wanted);
  ASSERT_TRUE(patch);
  EXPECT_EQ(*patch, R"({"data":{"ca.crt":null,"service.host":"h"}})");
  has["metadata"].erase("labels");
  EXPECT_FALSE(is_our_export(has));  // somebody else's stays
}

}  // namespace
}  // namespace kintsugi::workers
