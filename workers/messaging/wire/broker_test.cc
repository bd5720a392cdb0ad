// What is said to brokers, and what their answers mean: the recorded exchanges, byte for byte.
#include <gtest/gtest.h>

#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

/// Resource, operation or attribute, and body.
std::string rendered(const ManagementRequest& request) {
  std::string out;
  for (const Attribute& one : request.properties) {
    out += std::string(one.name) + "=" + std::get<std::string>(one.value) + " ";
  }
  return out + std::get<std::string>(request.body);
}

/// @param body  as it stands in the message: a JSON text.
ManagementReply answer(bool succeeded, std::string_view body) {
  return {Json::object({{"_AMQ_OperationSucceeded", succeeded}}), body};
}
ManagementReply nothing() { return {Json::object({{"_AMQ_OperationSucceeded", true}}), nullptr}; }
ManagementReply done(const Json& value) { return answer(true, Json::array({value}).dump()); }
ManagementReply failed(std::string_view text) { return answer(false, Json::array({text}).dump()); }

DesiredEntity address(std::string routing = "ANYCAST") {
  return {EntityKind::kBrokerAddress, "ns1/q1", {{"routing-type", std::move(routing)}}};
}
DesiredEntity queue(std::int64_t consumers = -1) {
  return {EntityKind::kQueue,
          "ns1/q1",
          {{"address", std::string("ns1/q1")},
           {"routing-type", std::string("ANYCAST")},
           {"durable", true},
           {"max-consumers", consumers},
           {"purge-on-no-consumers", false},
           {"auto-create-address", false}}};
}
DesiredEntity settings() {
  return {EntityKind::kAddressSettings,
          "cabc.#",
          {{"maxSizeBytes", std::int64_t{10485760}},
           {"pageSizeBytes", std::int64_t{10485760}},
           {"addressFullMessagePolicy", std::string("FAIL")},
           {"deadLetterAddress", std::string("ns1/dlq")}}};
}
DesiredEntity divert() {
  return {EntityKind::kDivert,
          "d1",
          {{"address", std::string("ns1/q1")}, {"forwarding-address", std::string("ns1/q2")}}};
}

TEST(ManagementWire, S81_BH6_BH7_BrokerRequestsAreAsRecorded) {
  const struct {
    Operation operation;
    DesiredEntity entity;
    std::string_view sent;
  } rows[] = {
      {Operation::kCreate, address(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=createAddress ["ns1/q1","ANYCAST"])"},
      {Operation::kCreate, address("MULTICAST"),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=createAddress ["ns1/q1","MULTICAST"])"},
      {Operation::kRead, address(),
       R"(_AMQ_ResourceName=address.ns1/q1 _AMQ_Attribute=RoutingTypes [])"},
      {Operation::kDelete, address(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=deleteAddress ["ns1/q1"])"},
      {Operation::kCreate, queue(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=createQueue ["{\"address\":\"ns1/q1\",\"auto-create-address\":false,\"durable\":true,\"max-consumers\":-1,\"name\":\"ns1/q1\",\"purge-on-no-consumers\":false,\"routing-type\":\"ANYCAST\"}",true])"},
      {Operation::kUpdate, queue(4),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=updateQueue ["{\"address\":\"ns1/q1\",\"auto-create-address\":false,\"durable\":true,\"max-consumers\":4,\"name\":\"ns1/q1\",\"purge-on-no-consumers\":false,\"routing-type\":\"ANYCAST\"}"])"},
      {Operation::kDelete, queue(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=destroyQueue ["ns1/q1",true])"},
      {Operation::kRead, queue(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=listQueues ["{\"field\":\"name\",\"operation\":\"EQUALS\",\"value\":\"ns1/q1\"}",1,10])"},
      {Operation::kCreate, settings(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=addAddressSettings ["cabc.#","{\"addressFullMessagePolicy\":\"FAIL\",\"deadLetterAddress\":\"ns1/dlq\",\"maxSizeBytes\":10485760,\"pageSizeBytes\":10485760}"])"},
      {Operation::kUpdate, settings(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=addAddressSettings ["cabc.#","{\"addressFullMessagePolicy\":\"FAIL\",\"deadLetterAddress\":\"ns1/dlq\",\"maxSizeBytes\":10485760,\"pageSizeBytes\":10485760}"])"},
      {Operation::kRead, settings(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=getAddressSettingsAsJSON ["cabc.#"])"},
      {Operation::kDelete, settings(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=removeAddressSettings ["cabc.#"])"},
      {Operation::kCreate, divert(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=createDivert ["{\"address\":\"ns1/q1\",\"forwarding-address\":\"ns1/q2\",\"name\":\"d1\"}"])"},
      {Operation::kRead, divert(),
       R"(_AMQ_ResourceName=divert.d1 _AMQ_Attribute=ForwardingAddress [])"},
      {Operation::kDelete, divert(),
       R"(_AMQ_ResourceName=broker _AMQ_OperationName=destroyDivert ["d1"])"},
  };
  for (const auto& row : rows) {
    const auto request = entity_request(row.operation, row.entity);
    ASSERT_TRUE(request.has_value()) << row.sent;
    EXPECT_EQ(rendered(*request), row.sent);
  }
  EXPECT_FALSE(entity_request(Operation::kUpdate, address()).has_value());
  EXPECT_FALSE(entity_request(Operation::kUpdate, divert()).has_value());
  EXPECT_EQ(rendered(broker_call("broker", "getQueueNames", Json::array())),
            "_AMQ_ResourceName=broker _AMQ_OperationName=getQueueNames []");
  EXPECT_EQ(rendered(broker_call("queue.q", "x", Json())),
            "_AMQ_ResourceName=queue.q _AMQ_OperationName=x []");
  EXPECT_EQ(rendered(broker_attribute("broker", "Version")),
            "_AMQ_ResourceName=broker _AMQ_Attribute=Version []");
  EXPECT_EQ(rendered(list_queues_request(3, 1000)),
            R"(_AMQ_ResourceName=broker _AMQ_OperationName=listQueues ["",3,1000])");
  // Names of brokers have no such bound as those of routers.
  DesiredEntity long_name = queue();
  long_name.name = std::string(264, 'n');
  EXPECT_TRUE(entity_request(Operation::kCreate, long_name).has_value());
}

struct AnswerRow {
  Operation operation;
  DesiredEntity entity;
  ManagementReply reply;
  Verdict verdict;
  std::int64_t code;
  std::string_view body = "null";
};

void expect_rows(const std::vector<AnswerRow>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const AnswerRow& row = rows[i];
    const EntityOutcome out = entity_outcome(row.operation, row.entity, row.reply);
    EXPECT_EQ(out.verdict, row.verdict) << "row " << i << ": " << out.text;
    EXPECT_EQ(out.code, row.code) << "row " << i;
    EXPECT_EQ(out.body.dump(), row.body) << "row " << i;
  }
}

constexpr std::string_view kCreated =
    R"({"address":"ns1/q1","auto-create-address":false,"durable":true,"id":30,"max-consumers":-1,"name":"ns1/q1","purge-on-no-consumers":false,"routing-type":"ANYCAST"})";
constexpr std::string_view kEchoOfRequest =
    R"({"address":"ns1/q1","durable":true,"max-consumers":-1,"name":"ns1/q1","routing-type":"ANYCAST"})";

TEST(ManagementWire, S81_MH10_AddressesAreUnderstoodAsRecorded) {
  constexpr std::string_view kText =
      "Address [name=ns1/q1, routingTypes={ANYCAST}, autoCreated=false]";
  constexpr std::string_view kAddress = R"({"name":"ns1/q1","routing-type":"ANYCAST"})";
  expect_rows({
      {Operation::kCreate, address(), done(kText), Verdict::kDone, 200, kAddress},
      {Operation::kCreate, address("MULTICAST"), done(kText), Verdict::kDifferent, 200, kAddress},
      {Operation::kCreate, address(), done("Address [name=other, routingTypes={ANYCAST}]"),
       Verdict::kExists, 200},
      {Operation::kCreate, address(), done("Address [name=ns1/q1, routingTypes={ANYCAST"),
       Verdict::kExists, 200},
      {Operation::kCreate, address(), done(7), Verdict::kMalformed, 200},
      {Operation::kCreate, address(), nothing(), Verdict::kMalformed, 200},
      {Operation::kCreate, address(), failed("AMQ229204: Address already exists: ns1/q1"),
       Verdict::kExists, 229204},
      {Operation::kRead, address(), done(Json::array({"ANYCAST"})), Verdict::kDone, 200, kAddress},
      {Operation::kRead, address("MULTICAST"), done(Json::array({"ANYCAST"})), Verdict::kDifferent,
       200, kAddress},
      {Operation::kRead, address(), done(Json::array({"ANYCAST", "MULTICAST"})),
       Verdict::kDifferent, 200, R"({"name":"ns1/q1","routing-type":"ANYCAST,MULTICAST"})"},
      {Operation::kRead, address(), done("ANYCAST"), Verdict::kMalformed, 200},
      {Operation::kRead, address(),
       failed("AMQ229067: Cannot find resource with name address.ns1/q1"), Verdict::kMissing,
       229067},
      {Operation::kDelete, address(), nothing(), Verdict::kDone, 200},
      {Operation::kDelete, address(), failed("AMQ229205: Address ns1/q1 has bindings"),
       Verdict::kBlocked, 229205},
      {Operation::kDelete, address(), failed("AMQ229203: Address Does Not Exist: ns1/q1"),
       Verdict::kMissing, 229203},
      {Operation::kDelete, address(), failed("AMQ229069: no operation deleteAddress/1"),
       Verdict::kRefused, 229069},
  });
}

TEST(ManagementWire, S81_BH2_QueuesAreUnderstoodAsRecorded) {
  EXPECT_EQ(entity_outcome(Operation::kUpdate, queue(3), done(kCreated)).text,
            "max-consumers differs and cannot be changed");
  expect_rows({
      {Operation::kCreate, queue(), done(kCreated), Verdict::kDone, 200, kCreated},
      {Operation::kCreate, queue(3), done(kCreated), Verdict::kDifferent, 200, kCreated},
      {Operation::kCreate, queue(), done(kEchoOfRequest), Verdict::kExists, 200},
      {Operation::kCreate, queue(), done(R"({"id":null})"), Verdict::kExists, 200},
      {Operation::kCreate, queue(),
       failed("AMQ229019: Queue ns1/q1 already exists on address ns1/q1"), Verdict::kExists,
       229019},
      {Operation::kCreate, queue(), failed("AMQ229203: Address Does Not Exist: ns1/q1"),
       Verdict::kRefused, 229203},
      {Operation::kCreate, queue(),
       failed("AMQ229207: Can not create queue with routing type: ANYCAST, Supported routing types "
              "for address: ns1/q1 are [MULTICAST]"),
       Verdict::kRefused, 229207},
      {Operation::kCreate, queue(), done("[]"), Verdict::kMalformed, 200},
      {Operation::kCreate, queue(), done("{"), Verdict::kMalformed, 200},
      {Operation::kCreate, queue(), nothing(), Verdict::kMalformed, 200},
      {Operation::kUpdate, queue(), done(kCreated), Verdict::kDone, 200, kCreated},
      {Operation::kUpdate, queue(3), done(kCreated), Verdict::kDifferent, 200, kCreated},
      {Operation::kUpdate, queue(), failed("AMQ229017: Queue ns1/q1 does not exist"),
       Verdict::kMissing, 229017},
      {Operation::kDelete, queue(), nothing(), Verdict::kDone, 200},
      {Operation::kDelete, queue(), failed("AMQ229017: Queue ns1/q1 does not exist"),
       Verdict::kMissing, 229017},
      {Operation::kDelete, queue(), failed("AMQ229069: no operation destroyQueue/2"),
       Verdict::kRefused, 229069},
      {Operation::kDelete, queue(),
       failed("AMQ229032: User: x does not have permission='MANAGE' on address "
              "activemq.management"),
       Verdict::kForbidden, 229032},
      {Operation::kCreate, queue(),
       failed("amqp:resource-limit-exceeded: AMQ229102: Address \"a\" is full."),
       Verdict::kForbidden, 0},
  });
}

TEST(ManagementWire, BH2_MS081_WhatDiffersOfAQueueIsSeenInTheList) {
  constexpr std::string_view kListed =
      R"({"address":"ns1/q1","consumerCount":"0","durable":"true","id":"30","maxConsumers":"-1","name":"ns1/q1","purgeOnNoConsumers":"false","routingType":"ANYCAST"})";
  const auto page = [](std::string_view queues, std::string_view count) {
    return done(R"({"data":[)" + std::string(queues) + R"(],"count":)" + std::string(count) + "}");
  };
  expect_rows({
      {Operation::kRead, queue(), page(kListed, "1"), Verdict::kDone, 200, kListed},
      {Operation::kRead, queue(5), page(kListed, "1"), Verdict::kDifferent, 200, kListed},
      {Operation::kRead, queue(), page("", "0"), Verdict::kMissing, 200},
      {Operation::kRead, queue(), page(R"({"name":"ns1/q11"})", "1"), Verdict::kMissing, 200},
      {Operation::kRead, queue(), page(R"({"nome":"ns1/q11"})", "1"), Verdict::kMalformed, 200},
      {Operation::kRead, queue(), done("x"), Verdict::kMalformed, 200},
  });
  const Json listed = *Json::parse(kListed);
  EXPECT_TRUE(queue_differs(queue(), listed).empty());
  const struct {
    std::string_view key, value, name;
  } changes[] = {{"address", "other", "address"},
                 {"routingType", "MULTICAST", "routing-type"},
                 {"durable", "false", "durable"},
                 {"maxConsumers", "7", "max-consumers"},
                 {"purgeOnNoConsumers", "true", "purge-on-no-consumers"}};
  for (const auto& change : changes) {
    Json other = listed;
    other[change.key] = change.value;
    EXPECT_EQ(queue_differs(queue(), other), std::vector<std::string_view>{change.name});
  }
}

TEST(ManagementWire, S81_PagesOfQueuesAreRead) {
  const auto page = list_queues_page(
      done(R"({"data":[{"name":"a","id":"1"},{"name":"b","id":"2"}],"count":40000})"));
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(page->count, 40000);
  ASSERT_EQ(page->queues.size(), 2U);
  EXPECT_EQ(page->queues[1].text({"name"}), "b");
  const auto beyond = list_queues_page(done(R"({"data":[],"count":2})"));
  ASSERT_TRUE(beyond.has_value());
  EXPECT_TRUE(beyond->queues.empty());
  for (const std::string_view bad :
       {"", "[]", R"({"data":[]})", R"({"count":1})", R"({"data":{},"count":1})",
        R"({"data":[],"count":"1"})", R"({"data":[],"count":-1})", R"({"data":[1],"count":1})"}) {
    EXPECT_FALSE(list_queues_page(done(bad)).has_value()) << bad;
  }
}

TEST(ManagementWire, S81_BH3_SettingsAreReadBack) {
  constexpr std::string_view kMerged =
      R"({"addressFullMessagePolicy":"FAIL","autoCreateQueues":true,"deadLetterAddress":"ns1/dlq","expiryDelay":-1,"maxSizeBytes":10485760,"pageSizeBytes":10485760})";
  constexpr std::string_view kIgnored =
      R"({"addressFullMessagePolicy":"FAIL","deadLetterAddress":"DLQ","maxSizeBytes":10485760,"pageSizeBytes":10485760})";
  expect_rows({
      {Operation::kCreate, settings(), nothing(), Verdict::kDone, 200},
      {Operation::kUpdate, settings(), done(kMerged), Verdict::kDone, 200, kMerged},
      {Operation::kCreate, settings(),
       failed("pageSize has to be lower than maxSizeBytes. Invalid argument (10485760 < 65536)"),
       Verdict::kRefused, 0},
      {Operation::kCreate, settings(), failed("Invalid argument on maxSizeBytes"),
       Verdict::kRefused, 0},
      {Operation::kCreate, settings(), failed("Error while parsing MetaData{x}"), Verdict::kRefused,
       0},
      {Operation::kCreate, settings(), failed("Java heap space"), Verdict::kRefused, 0},
      {Operation::kRead, settings(), done(kMerged), Verdict::kDone, 200, kMerged},
      {Operation::kRead, settings(), done(kIgnored), Verdict::kDifferent, 200, kIgnored},
      {Operation::kRead, settings(), nothing(), Verdict::kMalformed, 200},
      {Operation::kDelete, settings(), nothing(), Verdict::kDone, 200},
  });
}

TEST(ManagementWire, S81_DivertsAreUnderstood) {
  expect_rows({
      {Operation::kCreate, divert(), nothing(), Verdict::kDone, 200},
      {Operation::kRead, divert(), done("ns1/q2"), Verdict::kDone, 200,
       R"({"forwarding-address":"ns1/q2","name":"d1"})"},
      {Operation::kRead, divert(), done("ns1/q3"), Verdict::kDifferent, 200,
       R"({"forwarding-address":"ns1/q3","name":"d1"})"},
      {Operation::kRead, divert(), failed("AMQ229067: Cannot find resource with name divert.d1"),
       Verdict::kMissing, 229067},
      {Operation::kDelete, divert(), nothing(), Verdict::kDone, 200},
  });
}

TEST(ManagementWire, S81_ValuesAreTheOneElementOfTheAnswer) {
  const auto names = broker_value(answer(true, R"([["$sys.mqtt.sessions","DLQ","ExpiryQueue"]])"));
  ASSERT_TRUE(names.has_value());
  EXPECT_EQ(names->dump(), R"(["$sys.mqtt.sessions","DLQ","ExpiryQueue"])");
  EXPECT_EQ(broker_value(done("2.44.0"))->as_string(), "2.44.0");
  EXPECT_EQ(broker_value(done(268435456))->as_integer(), 268435456);
  EXPECT_TRUE(broker_value(nothing())->is_null());
  const struct {
    std::string_view text;
    Errc code;
  } failures[] = {
      {"AMQ229069: no operation nope/0", Errc::kUnavailable},
      {"AMQ229067: Cannot find resource with name nope", Errc::kUnavailable},
      {"Problem while retrieving attribute Nope", Errc::kUnavailable},
      {"AMQ229031: Unable to validate user from x", Errc::kForbidden},
      {"AMQ229213: User: x does not have permission='MANAGE'", Errc::kForbidden},
      {"AMQx229213: no number", Errc::kUnavailable},
      {"amqp:resource-limit-exceeded: AMQ229102: Address is full.", Errc::kForbidden},
      {"amqp:unauthorized-access: not you", Errc::kForbidden},
      {"amqp:not-found: no such node", Errc::kUnavailable},
  };
  for (const auto& row : failures) {
    const auto value = broker_value(failed(row.text));
    ASSERT_FALSE(value.has_value());
    EXPECT_EQ(value.error().code(), row.code) << row.text;
    EXPECT_EQ(value.error().message(), row.text);
  }
}

TEST(ManagementWire, S16_BrokerAnswersOfAnotherShapeAreNone) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  for (const std::string_view body :
       {std::string_view("nope"), std::string_view("[1,2]"), std::string_view("[]"),
        std::string_view("{}"), std::string_view("7"), std::string_view(deep),
        std::string_view("")}) {
    const auto value = broker_value(answer(true, body));
    ASSERT_FALSE(value.has_value()) << body;
    EXPECT_EQ(value.error().code(), Errc::kInvalid);
    EXPECT_EQ(entity_outcome(Operation::kDelete, queue(), answer(true, body)).verdict,
              Verdict::kMalformed);
  }
  EXPECT_FALSE(broker_value({Json::object({{"_AMQ_OperationSucceeded", true}}), 7}).has_value());
  EXPECT_FALSE(broker_value({}).has_value());
  EXPECT_FALSE(
      broker_value({Json::object({{"_AMQ_OperationSucceeded", "true"}}), nullptr}).has_value());
  EXPECT_EQ(broker_value(answer(false, "[7]")).error().code(), Errc::kInvalid);
  // An exception may be without words: it is one of that entity.
  const EntityOutcome silent = entity_outcome(Operation::kCreate, queue(), answer(false, "[null]"));
  EXPECT_EQ(silent.verdict, Verdict::kRefused);
  EXPECT_FALSE(silent.text.empty());
}

TEST(ManagementWire, BH9_BrokersBefore232AreNotSupported) {
  for (const std::string_view good : {"2.32.0", "2.44.0", "2.33.0.redhat-00001", "3.0.0"}) {
    EXPECT_TRUE(is_supported_broker(good)) << good;
  }
  for (const std::string_view bad : {"2.31.2", "1.99.0", "", "2", "x"}) {
    EXPECT_FALSE(is_supported_broker(bad)) << bad;
  }
}

}  // namespace
}  // namespace kintsugi::workers
