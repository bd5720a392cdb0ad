// What we send and read, against tables that answer as recorded.
#include "workers/messaging/testing/fake_tables.h"

#include <gtest/gtest.h>

#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

Json body_json(const ManagementRequest& request) {
  if (const auto* text = std::get_if<std::string>(&request.body)) {
    return std::string_view(*text);
  }
  return wire::attributes_json(std::get<Attributes>(request.body));
}

struct RouterStage {
  FakeRouter router;
  TimePoint now{};
  explicit RouterStage(bool hazards) : router(hazards) {}

  std::optional<FakeAnswer> ask(const ManagementRequest& request) {
    return router.answer(wire::attributes_json(request.properties), body_json(request), now);
  }
  EntityOutcome tell(Operation operation, const DesiredEntity& entity) {
    const auto request = entity_request(operation, entity);
    EXPECT_TRUE(request.has_value());
    const auto answer = ask(*request);
    EXPECT_TRUE(answer.has_value());
    return answer ? entity_outcome(operation, entity, {answer->properties, answer->body})
                  : EntityOutcome();
  }
};

EntityOutcome tell(FakeBroker& broker, Operation operation, const DesiredEntity& entity) {
  const auto request = entity_request(operation, entity);
  EXPECT_TRUE(request.has_value());
  const FakeAnswer answer =
      broker.answer(wire::attributes_json(request->properties), body_json(*request));
  return entity_outcome(operation, entity, {answer.properties, answer.body});
}

std::vector<DesiredEntity> router_entities() {
  return {
      {EntityKind::kConnector,
       "con",
       {{"host", std::string("h")},
        {"port", std::string("5672")},
        {"role", std::string("route-container")},
        {"cost", std::int64_t{1}}}},
      {EntityKind::kAddress,
       "addr",
       {{"pattern", std::string("s/a")},
        {"distribution", std::string("balanced")},
        {"waypoint", true}}},
      {EntityKind::kAutoLink,
       "al",
       {{"address", std::string("s/a")},
        {"direction", std::string("in")},
        {"connection", std::string("con")},
        {"externalAddress", std::string("s/a")}}},
      {EntityKind::kLinkRoute,
       "lr",
       {{"prefix", std::string("s/t")},
        {"direction", std::string("in")},
        {"connection", std::string("con")}}},
      {EntityKind::kSslProfile, "ssl", {{"certFile", std::string("/c")}}},
      {EntityKind::kListener, "lis", {{"port", std::string("1")}, {"role", std::string("normal")}}},
      {EntityKind::kVhost,
       "vh",
       {{"hostname", std::string("s")},
        {"aliases", std::string("a,b")},
        {"maxConnections", std::int64_t{10}}}},
  };
}

TEST(FakeComponents, S6_ARouterGoesThroughTheLifeOfEachType) {
  for (const bool hazards : {false, true}) {
    RouterStage stage(hazards);
    for (const DesiredEntity& entity : router_entities()) {
      EXPECT_EQ(stage.tell(Operation::kRead, entity).verdict, Verdict::kMissing);
      EXPECT_EQ(stage.tell(Operation::kCreate, entity).verdict, Verdict::kDone) << entity.name;
      EXPECT_EQ(stage.tell(Operation::kCreate, entity).verdict, Verdict::kExists) << entity.name;
      EXPECT_EQ(stage.tell(Operation::kRead, entity).verdict, Verdict::kDone);
      EXPECT_EQ(stage.router.size(router_type(entity.kind)), 1U);
    }
    DesiredEntity other = router_entities()[1];
    other.name = "second";
    EXPECT_EQ(stage.tell(Operation::kCreate, other).text, "Already exists");
    DesiredEntity vhost = router_entities().back();
    std::get<std::int64_t>(vhost.attributes[2].value) = 5;
    EXPECT_EQ(stage.tell(Operation::kRead, vhost).verdict, Verdict::kDifferent);
    EXPECT_EQ(stage.tell(Operation::kUpdate, vhost).verdict, Verdict::kDone);
    EXPECT_EQ(stage.tell(Operation::kRead, vhost).verdict, Verdict::kDone);
    for (const DesiredEntity& entity : router_entities()) {
      EXPECT_EQ(stage.tell(Operation::kDelete, entity).verdict, Verdict::kDone);
      EXPECT_EQ(stage.tell(Operation::kDelete, entity).verdict, Verdict::kMissing);
    }
  }
}

TEST(FakeComponents, S6_LinksAreActiveAfter40MillisecondsOfTheirConnector) {
  RouterStage stage(true);
  const auto entities = router_entities();
  const auto state = [&](std::size_t i) {
    return link_status(entities[i].kind, stage.tell(Operation::kRead, entities[i]).body).state;
  };
  (void)stage.tell(Operation::kCreate, entities[2]);
  (void)stage.tell(Operation::kCreate, entities[3]);
  stage.now += seconds(1);
  EXPECT_EQ(state(2), LinkState::kInactive);
  (void)stage.tell(Operation::kCreate, entities[0]);
  EXPECT_EQ(state(0), LinkState::kInactive);
  stage.now += milliseconds(22);
  EXPECT_EQ(state(0), LinkState::kActive);
  stage.now += milliseconds(17);
  EXPECT_EQ(state(2), LinkState::kInactive);
  stage.now += milliseconds(1);
  EXPECT_EQ(state(2), LinkState::kActive);
  EXPECT_EQ(state(3), LinkState::kActive);
}

TEST(FakeComponents, MH7_AliasesOfADeletedVhostStay) {
  const DesiredEntity vhost = router_entities().back();
  for (const bool clears : {false, true}) {
    RouterStage stage(true);
    (void)stage.tell(Operation::kCreate, vhost);
    if (clears) {
      EXPECT_TRUE(stage.ask(clear_aliases_request("vh")).has_value());
    }
    EXPECT_EQ(stage.tell(Operation::kDelete, vhost).verdict, Verdict::kDone);
    const EntityOutcome again = stage.tell(Operation::kCreate, vhost);
    EXPECT_EQ(again.verdict, clears ? Verdict::kDone : Verdict::kRefused);
    EXPECT_EQ(again.code, clears ? 201 : 500);
  }
}

TEST(FakeComponents, MH3_MH4_MH8_MH10_ARouterHasItsHazards) {
  const Json update = *Json::parse(
      R"({"operation":"UPDATE","type":"org.apache.qpid.dispatch.router.config.address","name":"x"})");
  Json create = update;
  create["operation"] = "CREATE";
  const Json bogus = *Json::parse(R"({"pattern":"p","distribution":"bogus","waypoint":"yes"})");
  for (const bool hazards : {false, true}) {
    FakeRouter router(hazards);
    const auto code = [](const std::optional<FakeAnswer>& answer) {
      return answer ? answer->properties.find("statusCode")->as_integer() : 0;
    };
    EXPECT_EQ(code(router.answer(update, Json::object(), {})), hazards ? 0 : 501);
    const auto made = router.answer(create, bogus, {});
    EXPECT_EQ(code(made), hazards ? 201 : 400);
    if (hazards) {
      EXPECT_EQ(made->body.text({"distribution"}), "balanced");
      EXPECT_FALSE(made->body.find("waypoint")->as_bool(true));
    }
    Json vhost = create;
    vhost["type"] = "org.apache.qpid.dispatch.vhost";
    EXPECT_EQ(router.answer(vhost, Json::object(), {})->serial, hazards);
    Json long_name = create;
    long_name["name"] = std::string(513, 'n');
    EXPECT_EQ(code(router.answer(long_name, bogus, {})), hazards ? 0 : 400);
    EXPECT_EQ(router.hangs(), hazards);
    EXPECT_EQ(router.answer(vhost, Json::object(), {}).has_value(), !hazards);
    router.restart({});
    EXPECT_FALSE(router.hangs());
  }
}

TEST(FakeComponents, MH5_ARoutersTableIsCutAndPaged) {
  RouterStage stage(false);
  DesiredEntity entity = router_entities()[2];
  for (int i = 0; i < 25'000; ++i) {
    entity.name = "n" + std::to_string(i);
    const auto request = entity_request(Operation::kCreate, entity);
    (void)stage.ask(*request);
  }
  const std::string_view columns[] = {"name", "operStatus"};
  const auto page = [&](std::int64_t offset, std::int64_t count) {
    const auto answer =
        stage.ask(query_request(router_type(EntityKind::kAutoLink), columns, offset, count));
    return query_page({answer->properties, answer->body});
  };
  EXPECT_FALSE(page(0, 25'000).has_value());
  const auto first = page(0, most_rows(2));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->rows.size(), 19'997U);
  EXPECT_EQ(first->rows[3].items()[0].as_string(), "n3");
  EXPECT_EQ(page(19'997, most_rows(2))->rows.size(), 5'003U);
  EXPECT_TRUE(page(25'000, 10)->rows.empty());
  const auto counters = router_counters([&] {
    const auto answer = stage.ask(router_counters_request());
    return ManagementReply{answer->properties, answer->body};
  }());
  ASSERT_TRUE(counters.has_value());
  EXPECT_EQ(counters->auto_links, 25'000);
  EXPECT_EQ(counters->id, "R1");
}

std::vector<DesiredEntity> broker_entities() {
  return {{EntityKind::kAddressSettings,
           "c.#",
           {{"maxSizeBytes", std::int64_t{20'000'000}}, {"expiryAddress", std::string("e")}}},
          {EntityKind::kBrokerAddress, "c.q", {{"routing-type", std::string("ANYCAST")}}},
          {EntityKind::kQueue,
           "c.q",
           {{"address", std::string("c.q")},
            {"routing-type", std::string("ANYCAST")},
            {"durable", true},
            {"max-consumers", std::int64_t{-1}},
            {"purge-on-no-consumers", false},
            {"auto-create-address", false}}},
          {EntityKind::kDivert,
           "d",
           {{"address", std::string("c.q")}, {"forwarding-address", std::string("x")}}}};
}

TEST(FakeComponents, S81_BH2_ABrokerGoesThroughTheLifeOfEachType) {
  for (const bool hazards : {false, true}) {
    FakeBroker broker(hazards);
    const auto entities = broker_entities();
    EXPECT_EQ(tell(broker, Operation::kCreate, entities[2]).code, 229203);
    for (const DesiredEntity& entity : entities) {
      EXPECT_NE(tell(broker, Operation::kRead, entity).verdict, Verdict::kDone);
      EXPECT_EQ(tell(broker, Operation::kCreate, entity).verdict, Verdict::kDone) << entity.name;
      EXPECT_EQ(tell(broker, Operation::kRead, entity).verdict, Verdict::kDone) << entity.name;
    }
    EXPECT_EQ(tell(broker, Operation::kCreate, entities[1]).verdict, Verdict::kExists);
    DesiredEntity other = entities[2];
    std::get<std::int64_t>(other.attributes[3].value) = 7;
    EXPECT_EQ(tell(broker, Operation::kCreate, other).verdict,
              hazards ? Verdict::kExists : Verdict::kDifferent);
    EXPECT_EQ(tell(broker, Operation::kRead, other).verdict, Verdict::kDifferent);
    EXPECT_EQ(tell(broker, Operation::kUpdate, other).verdict, Verdict::kDone);
    EXPECT_EQ(tell(broker, Operation::kRead, other).verdict, Verdict::kDone);
    EXPECT_EQ(tell(broker, Operation::kDelete, entities[1]).verdict, Verdict::kBlocked);
    EXPECT_EQ(tell(broker, Operation::kDelete, entities[2]).verdict, Verdict::kDone);
    EXPECT_EQ(tell(broker, Operation::kDelete, entities[2]).verdict, Verdict::kMissing);
    EXPECT_EQ(tell(broker, Operation::kUpdate, entities[2]).verdict, Verdict::kMissing);
    EXPECT_EQ(tell(broker, Operation::kDelete, entities[1]).verdict, Verdict::kDone);
    EXPECT_EQ(tell(broker, Operation::kDelete, entities[1]).verdict, Verdict::kMissing);
    EXPECT_EQ(tell(broker, Operation::kDelete, entities[0]).verdict, Verdict::kDone);
  }
}

TEST(FakeComponents, S81_ABrokerListsAndRefusesAsRecorded) {
  FakeBroker broker(true);
  const auto ask = [&broker](const ManagementRequest& request) {
    const FakeAnswer answer =
        broker.answer(wire::attributes_json(request.properties), body_json(request));
    return ManagementReply{answer.properties, answer.body};
  };
  DesiredEntity address = broker_entities()[1];
  DesiredEntity queue = broker_entities()[2];
  for (int i = 0; i < 25; ++i) {
    address.name = queue.name = "q" + std::to_string(i);
    std::get<std::string>(queue.attributes[0].value) = address.name;
    EXPECT_EQ(tell(broker, Operation::kCreate, address).verdict, Verdict::kDone);
    EXPECT_EQ(tell(broker, Operation::kCreate, queue).verdict, Verdict::kDone);
  }
  const auto page = list_queues_page(ask(list_queues_request(3, 10)));
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(page->count, 25);
  ASSERT_EQ(page->queues.size(), 5U);
  EXPECT_EQ(page->queues[4].text({"name"}), "q24");
  EXPECT_TRUE(list_queues_page(ask(list_queues_request(4, 10)))->queues.empty());
  EXPECT_EQ(broker_value(ask(broker_call("broker", "getQueueNames", Json::array())))->size(), 28U);
  EXPECT_EQ(broker_value(ask(broker_attribute("broker", "Version")))->as_string(), "2.44.0");
  const auto node_of = [](FakeBroker& one) {
    const ManagementRequest request = broker_attribute("broker", "NodeID");
    const FakeAnswer answer = one.answer(wire::attributes_json(request.properties),
                                         Json(std::get<std::string>(request.body)));
    return std::string(broker_value({answer.properties, answer.body})->as_string());
  };
  const std::string node = node_of(broker);
  FakeBroker second(true);
  EXPECT_FALSE(node.empty());
  EXPECT_EQ(node_of(broker), node);
  EXPECT_NE(node_of(second), node);
  broker.restart();
  EXPECT_NE(node_of(broker), node);
  const auto refused = [&ask](const ManagementRequest& request) {
    const auto value = broker_value(ask(request));
    return value ? std::string() : std::string(value.error().message());
  };
  EXPECT_EQ(refused(broker_call("broker", "nope", Json::array())),
            "AMQ229069: no operation nope/0");
  EXPECT_EQ(refused(broker_call("broker", "destroyQueue", Json::array({"q1", "true"}))),
            "AMQ229069: no operation destroyQueue/2");  // BH-6
  EXPECT_EQ(refused(broker_call("nope", "x", Json::array())),
            "AMQ229067: Cannot find resource with name nope");
  EXPECT_EQ(refused(broker_attribute("broker", "Nope")), "Problem while retrieving attribute Nope");
  EXPECT_EQ(refused(broker_call("broker", "addAddressSettings",
                                Json::array({"m", R"({"maxSizeBytes":65536})"}))),
            "pageSize has to be lower than maxSizeBytes. Invalid argument (10485760 < 65536)");
  EXPECT_EQ(refused(broker_call("broker", "addAddressSettings",
                                Json::array({"m", R"({"maxSizeBytes":-2})"}))),
            "Invalid argument on maxSizeBytes");
}

}  // namespace
}  // namespace kintsugi::workers
