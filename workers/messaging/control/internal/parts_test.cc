#include "workers/messaging/control/internal/parts.h"

#include <gtest/gtest.h>

#include "workers/messaging/control/internal/end_place.h"

namespace kintsugi::workers {
namespace {

MessagingConnector a_connector(bool tls = false) {
  MessagingConnector out;
  out.id = {"c", "ns", "remote", "uid-c", 0, 1};
  out.name = "remote";
  out.peers = {{"far.example", 0}, {"further.example", 5673}};
  out.username = {"", "login", "user"};
  out.password = {"", "login", "pass"};
  out.tls = tls;
  if (tls) {
    out.ca_cert = {"", "certs", "ca"};
  }
  out.addresses = {{"all", "#"}};
  return out;
}

PartState a_state() {
  PartState out;
  out.username = Secret::copy_of("marvin");
  out.password = Secret::copy_of("tea-and-no-tea");
  out.version = "generation 1, 77";
  out.usable = true;
  return out;
}

MessagingEndpoint an_endpoint(std::vector<Protocol> protocols,
                              MessagingEndpoint::Tls tls = MessagingEndpoint::Tls::kNone) {
  MessagingEndpoint out;
  out.id = {"c", "ns", "front", "uid-e", 0, 1};
  out.name = "front";
  out.protocols = std::move(protocols);
  out.tls = tls;
  return out;
}

const PartPlace kPlace{"own", "space-1", "/etc/certs", false};

std::string all_text(const std::vector<DesiredEntity>& entities) {
  std::string out;
  for (const DesiredEntity& one : entities) {
    for (const Attribute& attribute : one.attributes) {
      if (const auto* const text = std::get_if<std::string>(&attribute.value)) {
        out.append(*text).append("\n");
      }
    }
  }
  return out;
}

std::string text_of(const DesiredEntity& entity, std::string_view name) {
  const Attribute* const one = find_attribute(entity, name);
  return one == nullptr ? std::string() : std::get<std::string>(one->value);
}

TEST(MessagingParts, MS_072_ConnectorCarriesItsSecretsToRoutersAlone) {
  const auto plain = connector_part_entities(kPlace, a_connector(), a_state(), SecretForm::kPlain);
  ASSERT_EQ(plain.size(), 3U);  // connector, link routes in and out
  EXPECT_EQ(plain[0].kind, EntityKind::kConnector);
  EXPECT_EQ(text_of(plain[0], "saslUsername"), "marvin");
  EXPECT_EQ(text_of(plain[0], "saslPassword"), "tea-and-no-tea");
  EXPECT_EQ(text_of(plain[1], "pattern"), "space-1/remote/#");
  EXPECT_EQ(text_of(plain[1], "delExternalPrefix"), "space-1/remote/");
  const auto shown =
      connector_part_entities(kPlace, a_connector(), a_state(), SecretForm::kVersion);
  ASSERT_EQ(shown.size(), plain.size());
  EXPECT_EQ(all_text(shown).find("marvin"), std::string::npos);
  EXPECT_EQ(all_text(shown).find("tea-and-no-tea"), std::string::npos);
  EXPECT_EQ(text_of(shown[0], "saslPassword"), "generation 1, 77");
  PartState changed = a_state();
  changed.version = "generation 1, 78";
  EXPECT_NE(connector_part_entities(kPlace, a_connector(), changed, SecretForm::kVersion), shown);
  EXPECT_EQ(redactor_of(a_state()).redact("for marvin: tea-and-no-tea!"), "for ***: ***!");
}

TEST(MessagingParts, MS_072_NoConnectorBeforeItsSecretsAndCertificates) {
  PartState state = a_state();
  state.usable = false;
  EXPECT_TRUE(connector_part_entities(kPlace, a_connector(), state, SecretForm::kPlain).empty());
  state.usable = true;
  EXPECT_TRUE(
      connector_part_entities(kPlace, a_connector(true), state, SecretForm::kPlain).empty());
  state.profile = "abc";
  const auto made = connector_part_entities(kPlace, a_connector(true), state, SecretForm::kPlain);
  ASSERT_EQ(made.size(), 4U);
  EXPECT_EQ(made[0].kind, EntityKind::kSslProfile);  // before the connector
  EXPECT_EQ(text_of(made[0], "caCertFile"), "/etc/certs/abc/ca.crt");
  EXPECT_EQ(text_of(made[1], "sslProfile"), made[0].name);
  // What a Secret of that name lacks keeps what was complete.
  state.fault = secret_not_found("credentials.password", a_connector().password);
  EXPECT_EQ(connector_part_entities(kPlace, a_connector(true), state, SecretForm::kPlain), made);
  EXPECT_EQ(state.fault->message, "credentials.password: there is no key pass in Secret login");
}

TEST(MessagingParts, MH_10_PasswordIsNeverEchoed) {
  const auto made = connector_part_entities(kPlace, a_connector(), a_state(), SecretForm::kPlain);
  krm::Json echo = krm::Json::object();
  for (const Attribute& one : made[1].attributes) {
    echo[one.name] = std::get<std::string>(one.value);
  }
  EXPECT_TRUE(differing(made[1], echo).empty());
  const auto lacking = differing(made[0], krm::Json::object());
  EXPECT_EQ(std::count(lacking.begin(), lacking.end(), "saslPassword"), 0);
  EXPECT_EQ(std::count(lacking.begin(), lacking.end(), "saslUsername"), 1);
}

TEST(MessagingParts, MS_068_ProfileOnceAndBeforeTheListeners) {
  using Tls = MessagingEndpoint::Tls;
  const MessagingEndpoint endpoint =
      an_endpoint({Protocol::kAmqp, Protocol::kAmqps, Protocol::kAmqpWss}, Tls::kSelfsigned);
  PartState state;
  state.ports = {
      {Protocol::kAmqp, 40'000}, {Protocol::kAmqps, 40'001}, {Protocol::kAmqpWss, 40'002}};
  // While the certificate is on its way those without TLS are there.
  auto made = endpoint_part_entities(kPlace, endpoint, state);
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(text_of(made[0], "port"), "40000");
  state.profile = "abc";
  made = endpoint_part_entities(kPlace, endpoint, state);
  ASSERT_EQ(made.size(), 4U);
  std::size_t profile = made.size();
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i].kind == EntityKind::kSslProfile) {
      EXPECT_EQ(profile, made.size());  // one only
      profile = i;
      EXPECT_EQ(text_of(made[i], "certFile"), "/etc/certs/abc/tls.crt");
    } else if (!text_of(made[i], "sslProfile").empty()) {
      EXPECT_GT(i, profile);
      EXPECT_EQ(text_of(made[i], "sslProfile"), made[profile].name);
    }
    if (made[i].kind == EntityKind::kListener) {
      EXPECT_EQ(text_of(made[i], "policyVhost"), "space-1");
    }
  }
  // MS-095: other content, another profile.
  state.profile = "xyz";
  EXPECT_NE(endpoint_part_entities(kPlace, endpoint, state)[profile].name, made[profile].name);
}

TEST(MessagingParts, MS_070_SharedEndpointsHaveNoListener) {
  using Tls = MessagingEndpoint::Tls;
  EXPECT_FALSE(needs_listener(an_endpoint({Protocol::kAmqp})));
  EXPECT_FALSE(needs_listener(an_endpoint({Protocol::kAmqp}, Tls::kSelfsigned)));
  EXPECT_FALSE(needs_listener(an_endpoint({Protocol::kAmqps}, Tls::kWildcard)));
  EXPECT_TRUE(needs_listener(an_endpoint({Protocol::kAmqps}, Tls::kSelfsigned)));
  MessagingEndpoint dedicated = an_endpoint({Protocol::kAmqp});
  dedicated.dedicated = true;
  EXPECT_TRUE(needs_listener(dedicated));
  EXPECT_FALSE(needs_certificate(dedicated));
  PortPool pool;
  pool.set_range(40'000, 40'001);
  std::optional<Condition> fault;
  for (int i = 0; i < 1000; ++i) {
    MessagingEndpoint shared = an_endpoint({Protocol::kAmqp, Protocol::kAmqps}, Tls::kWildcard);
    shared.name = "e" + std::to_string(i);
    EXPECT_TRUE(allocate_ports(pool, shared.id, shared, {}, &fault).empty());
  }
  EXPECT_FALSE(fault);
  EXPECT_EQ(pool.free(), 2);
  PartState state;
  state.ports = {{Protocol::kAmqp, 40'000}};
  EXPECT_TRUE(endpoint_part_entities(kPlace, an_endpoint({Protocol::kAmqp}), state).empty());
}

TEST(MessagingParts, MS_070_MS_071_PortsRunOutAndComeBack) {
  PortPool pool;
  pool.set_range(40'000, 40'001);
  MessagingEndpoint first = an_endpoint({Protocol::kAmqp, Protocol::kAmqpWs});
  first.dedicated = true;
  std::optional<Condition> fault;
  const ProtocolPorts ports = allocate_ports(pool, first.id, first, {}, &fault);
  EXPECT_EQ(ports, (ProtocolPorts{{Protocol::kAmqp, 40'000}, {Protocol::kAmqpWs, 40'001}}));
  EXPECT_EQ(allocate_ports(pool, first.id, first, ports, &fault), ports);
  EXPECT_FALSE(fault);
  MessagingEndpoint second = first;
  second.name = "second";
  EXPECT_TRUE(allocate_ports(pool, second.id, second, {}, &fault).empty());
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->type, "AllocatedPorts");
  EXPECT_EQ(fault->reason, "PortsExhausted");
  // An HTTP listener that cannot be deleted holds its port for the same endpoint alone.
  release_ports(pool, first.id, first.name, {{Protocol::kAmqpWs, 40'001}}, true);
  fault.reset();
  EXPECT_EQ(allocate_ports(pool, second.id, second, {}, &fault),
            (ProtocolPorts{{Protocol::kAmqp, 40'000}}));
  EXPECT_TRUE(fault);
  release_ports(pool, first.id, first.name, {}, false);
  EXPECT_EQ(allocate_ports(pool, second.id, second, {}, &fault).size(), 1U);
  first.protocols = {Protocol::kAmqpWs};
  EXPECT_EQ(allocate_ports(pool, first.id, first, {}, &fault),
            (ProtocolPorts{{Protocol::kAmqpWs, 40'001}}));
  release_ports(pool, first.id, first.name, {}, true);
  EXPECT_EQ(allocate_ports(pool, second.id, second, {}, &fault).size(), 2U);
}

TEST(MessagingParts, MS_071_OnlyRefusedHttpListenersAreLeft) {
  ObjectProgress progress;
  EXPECT_FALSE(only_http_left(progress, 1));
  progress.leftover = 1;
  EXPECT_FALSE(only_http_left(progress, 1));
  progress.error = "listener ktg.x: HTTP listeners cannot be deleted";
  EXPECT_TRUE(only_http_left(progress, 1));
  EXPECT_FALSE(only_http_left(progress, 0));
  progress.leftover = 2;
  EXPECT_FALSE(only_http_left(progress, 1));
}

TEST(MessagingParts, MS_063_RecordsAreReadAsTheyWereWritten) {
  krm::Json status = krm::Json::object({{"phase", "Active"}});
  const PartRecord record{"hash", {{Protocol::kAmqps, 40'001}}, "broker.example"};
  write_record(status, record);
  EXPECT_EQ(record_of_object(status), record);
  write_record(status, {});
  EXPECT_EQ(status, krm::Json::object({{"phase", "Active"}}));
  write_part_record(status, endpoint_part("e"), record);
  write_part_record(status, connector_part("c"), {"other", {}, {}});
  EXPECT_EQ(record_of_part(status, endpoint_part("e")), record);
  EXPECT_EQ(record_of_part(status, connector_part("c")).certificate, "other");
  EXPECT_TRUE(record_of_part(status, endpoint_part("c")).empty());
  EXPECT_EQ(status.find("parts")->items()[0].text({"name"}), "connector/c");
  write_part_record(status, endpoint_part("e"), {});
  write_part_record(status, connector_part("c"), {});
  EXPECT_EQ(status, krm::Json::object({{"phase", "Active"}}));
  // What a user wrote there.
  status["internalPorts"] = krm::Json::array(
      {krm::Json::object({{"protocol", "AMQP"}, {"port", "40000"}}),
       krm::Json::object({{"protocol", "SMTP"}, {"port", 25}}),
       krm::Json::object({{"protocol", "AMQPS"}, {"port", 70'000}}), krm::Json(7)});
  EXPECT_TRUE(record_of_object(status).ports.empty());
}

TEST(MessagingParts, MS_074_ForwardersNeedTheirConnector) {
  MessagingAddress address;
  const auto known = [](const std::string& name) { return name == "remote"; };
  EXPECT_FALSE(forwarder_refused(address, known));
  address.extras = std::make_unique<AddressExtras>();
  address.extras->forwarders = {{"f1", "remote", "q", true}};
  EXPECT_FALSE(forwarder_refused(address, known));
  address.extras->forwarders.push_back({"f2", "elsewhere", "q", false});
  const auto refused = forwarder_refused(address, known);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->type, "Validated");
  EXPECT_EQ(refused->reason, "ConnectorNotFound");
  EXPECT_NE(refused->message.find("elsewhere"), std::string::npos);
}

TEST(Parts, MS072_AFaultyPartIsHeldAsItWasGoodTheLastTime) {
  Parsed<MessagingConnector> asked{a_connector(), true, {}};
  PartState state = a_state();
  EXPECT_EQ(to_hold(asked, nullptr), &asked.object);
  EXPECT_EQ(to_hold(asked, &state), nullptr);  // it was another one that was looked at
  state.generation = asked.object.id.generation;
  EXPECT_EQ(to_hold(asked, &state), &asked.object);
  asked.valid = false;
  EXPECT_EQ(to_hold(asked, nullptr), nullptr);
  EXPECT_EQ(to_hold(asked, &state), nullptr);  // another process may know
  state.good_connector = a_connector();
  EXPECT_EQ(to_hold(asked, &state), &*state.good_connector);
  asked.valid = true;
  EXPECT_EQ(to_hold(asked, &state), &asked.object);
  state.fault.emplace();  // a Secret that is gone, a host that is a router of the infra
  EXPECT_EQ(to_hold(asked, &state), &*state.good_connector);
  const Parsed<MessagingEndpoint> endpoint{an_endpoint({Protocol::kAmqp}), true, {}};
  EXPECT_EQ(to_hold(endpoint, &state), nullptr);
  state.good_endpoint = an_endpoint({Protocol::kAmqps});
  EXPECT_EQ(to_hold(endpoint, &state), &*state.good_endpoint);
}

}  // namespace
}  // namespace kintsugi::workers
