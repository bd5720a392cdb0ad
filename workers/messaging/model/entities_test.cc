#include "workers/messaging/model/entities.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

MessagingAddress an_address(AddressType type) {
  MessagingAddress out;
  out.id = {"c", "ns", "s.a", "uid-a", 0, 0};
  out.space = "s";
  out.address = "a";
  out.topic = "t";
  out.type = type;
  return out;
}

std::vector<BrokerLink> links(std::size_t n) {
  std::vector<BrokerLink> out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back({"b" + std::to_string(i), "ktg.o.con.b" + std::to_string(i)});
  }
  return out;
}

DesiredEntities made(const MessagingAddress& address, const std::vector<BrokerLink>& brokers,
                     bool transactional = false, const BrokerSettings* exact = nullptr) {
  PlacedAddress placed;
  placed.address = &address;
  placed.owner = "o";
  placed.space_id = "s-1";
  placed.transactional = transactional;
  placed.brokers = brokers;
  placed.broker_name = "s-1/a";
  placed.exact = exact;
  return address_entities(placed);
}

TEST(MessagingEntities, S51_MS023_RequestsAreCountedByTheTable) {
  using Count = std::int64_t (*)(std::int64_t, std::int64_t);
  const struct {
    AddressType type;
    std::size_t most_brokers;
    Count count;
  } rows[] = {
      {AddressType::kAnycast, 1, [](std::int64_t r, std::int64_t) { return r; }},
      {AddressType::kMulticast, 1, [](std::int64_t r, std::int64_t) { return r; }},
      {AddressType::kQueue, 4,
       [](std::int64_t r, std::int64_t b) { return r * (1 + 2 * b) + 2 * b; }},
      {AddressType::kDeadLetter, 4,
       [](std::int64_t r, std::int64_t b) { return r * (1 + b) + 2 * b; }},
      {AddressType::kTopic, 1, [](std::int64_t r, std::int64_t) { return 2 * r + 1; }},
      {AddressType::kSubscription, 1, [](std::int64_t r, std::int64_t) { return 2 * r + 1; }},
  };
  for (const auto& row : rows) {
    for (std::size_t b = 1; b <= row.most_brokers; ++b) {
      for (const std::int64_t r : {0, 1, 2, 7}) {
        const MessagingAddress address = an_address(row.type);
        EXPECT_EQ(made(address, links(b)).requests(r), row.count(r, static_cast<std::int64_t>(b)))
            << address_type_text(row.type) << " R=" << r << " B=" << b;
        if (is_broker_type(row.type)) {
          EXPECT_TRUE(made(address, links(b), true).routers.empty());
        }
      }
    }
  }
  const MessagingAddress queue = an_address(AddressType::kQueue);
  EXPECT_EQ(made(queue, links(1)).requests(3), 3 * 3 + 2);
  BrokerSettings exact;
  exact.max_size_messages = 5;
  EXPECT_EQ(made(queue, links(2), false, &exact).requests(3), 3 * 5 + 2 * 2 + 2);
  EXPECT_EQ(made(queue, {}).requests(3), 0);  // not placed: nothing is sent
}

TEST(MessagingEntities, MD16_MS028_MS030_MS031_MS032_EntitiesAreThoseOfTheTable) {
  const auto router = [](AddressType type) { return made(an_address(type), links(1)).routers; };
  EXPECT_EQ(router(AddressType::kAnycast)[0].attributes,
            (Attributes{{"pattern", std::string("s-1/a")},
                        {"distribution", std::string("balanced")},
                        {"waypoint", false}}));
  EXPECT_EQ(find_attribute(router(AddressType::kMulticast)[0], "distribution")->value,
            (decltype(Attribute::value)(std::string("multicast"))));
  const auto queue = router(AddressType::kQueue);
  EXPECT_EQ(queue[1].attributes, (Attributes{{"address", std::string("s-1/a")},
                                             {"direction", std::string("in")},
                                             {"connection", std::string("ktg.o.con.b0")},
                                             {"externalAddress", std::string("s-1/a")}}));
  EXPECT_EQ(find_attribute(router(AddressType::kTopic)[0], "prefix")->value,
            (decltype(Attribute::value)(std::string("s-1/a"))));
  const auto subscription = made(an_address(AddressType::kSubscription), links(1));
  EXPECT_EQ(find_attribute(subscription.routers[1], "externalAddress")->value,
            (decltype(Attribute::value)(std::string("s-1/t::s-1/a"))));
  const DesiredEntity& on_topic = subscription.brokers[0].entities[0];
  EXPECT_EQ(on_topic.kind, EntityKind::kQueue);
  EXPECT_EQ(find_attribute(on_topic, "address")->value,
            (decltype(Attribute::value)(std::string("s-1/t"))));
  EXPECT_EQ(find_attribute(on_topic, "max-consumers")->value,
            (decltype(Attribute::value)(std::int64_t{1})));
}

TEST(MessagingEntities, MD3_MD6_MS014_MS015_MS096_TheVhostHasThePlansLimits) {
  const ObjectIdentity id{"c", "ns", "s", "uid-s", 0, 0};
  PlanLimits limits;
  limits.connections = 10;
  limits.links_per_connection = 2;
  SpaceInput input{"o", "s-1", &id, &limits, 2, {"b.example", "a.example", "b.example"}, nullptr};
  const auto one = space_entities(input);
  ASSERT_EQ(one.size(), 1U);
  const krm::Json same = *krm::Json::parse(R"({"hostname":"s-1","aliases":"a.example,b.example",
    "maxConnections":5,"allowUnknownUser":true,"other":1,"groups":{"$default":{"remoteHosts":"*",
    "sources":"*","targets":"*","allowDynamicSource":true,"allowAnonymousSender":true,
    "maxSenders":2,"maxReceivers":2}}})");
  EXPECT_TRUE(differing(one[0], same).empty());
  krm::Json other = same;
  other.make({"groups", "$default"})["maxSenders"] = 65535;
  EXPECT_EQ(differing(one[0], other), std::vector<std::string_view>{"groups"});
  EXPECT_EQ(connections_per_router(limits, 3), 4);
  EXPECT_EQ(connections_per_router(limits, 4), 3);
  limits.connections = 0;
  EXPECT_EQ(connections_per_router(limits, 4), 0);
  limits.connections.reset();
  EXPECT_EQ(connections_per_router(limits, 4), 65535);
  const BrokerLink broker{"b0", "con"};
  input.transactional = &broker;
  EXPECT_EQ(space_entities(input).size(), 3U);  // MS-021
}

TEST(MessagingEntities, MH10_AnEchoThatDiffersIsSeen) {
  const DesiredEntity entity = made(an_address(AddressType::kQueue), links(1)).routers[0];
  const auto echo = [&](std::string_view text) {
    return differing(entity, *krm::Json::parse(text));
  };
  EXPECT_TRUE(
      echo(R"({"pattern":"s-1/a","distribution":"balanced","waypoint":true,"x":null})").empty());
  EXPECT_EQ(echo(R"({"pattern":"s-1/a","distribution":"balanced","waypoint":false})"),
            std::vector<std::string_view>{"waypoint"});
  EXPECT_EQ(echo(R"({"distribution":"balanced","waypoint":"true"})"),
            (std::vector<std::string_view>{"pattern", "waypoint"}));
  const auto queue = made(an_address(AddressType::kQueue), links(1)).brokers[0].entities[1];
  EXPECT_TRUE(differing(queue, *krm::Json::parse(R"({"address":"s-1/a","routing-type":"ANYCAST",
    "durable":"true","max-consumers":"-1","purge-on-no-consumers":"false"})"))
                  .empty());
  EXPECT_EQ(content_hash(entity), content_hash(entity));
  DesiredEntity other = entity;
  other.attributes[2].value = false;
  EXPECT_NE(content_hash(entity), content_hash(other));
  const DesiredEntity list{EntityKind::kAddress, "n", {{"x", AttributeTexts{"a", "b"}}}};
  EXPECT_TRUE(differing(list, *krm::Json::parse(R"({"x":["a","b"]})")).empty());
  for (const std::string_view text : {R"({"x":["a"]})", R"({"x":["a","c"]})", R"({"x":null})"}) {
    EXPECT_EQ(differing(list, *krm::Json::parse(text)).size(), 1U) << text;
  }
  EXPECT_NE(content_hash(list), content_hash({list.kind, "n", {{"x", AttributeTexts{"ab"}}}}));
}

TEST(MessagingEntities, MD10_MD11_MD12_MD15_S83_SettingsHaveAClassOrAnExactMatch) {
  AddressPlan plan;
  plan.id.uid = "plan-1";
  plan.type = AddressType::kQueue;
  plan.settings.limits_depth = 10;
  plan.settings.ttl_ms = 60'000;
  plan.allow_overrides = true;
  MessagingAddress address = an_address(AddressType::kQueue);
  EffectiveSettings effective = effective_settings(address, &plan);
  SettingsInput input;
  input.plan = &plan;
  input.effective = &effective;
  input.policy = FullPolicy::kPage;
  input.space_id = "s-1";
  SettingsChoice choice = choose_settings(input, "s-1/a");
  EXPECT_EQ(choice.settings_class, settings_class_name("plan-1", ""));
  EXPECT_EQ(choice.broker_name, choice.settings_class + ".s-1/a");
  EXPECT_FALSE(choice.exact.has_value());
  EXPECT_EQ(choice.of_class.max_size_messages, 10);
  EXPECT_EQ(choice.of_class.full_policy, "FAIL");
  EXPECT_EQ(choice.of_class.expiry_delay, 60'000);
  EXPECT_EQ(choice.of_class.max_expiry_delay, 60'000);
  // MS-037, MS-084: an override is exact, and so is a plan switch; N stays.
  const std::string recorded = choice.broker_name;
  input.recorded = recorded;
  address.extras = std::make_unique<AddressExtras>();
  address.extras->overrides.ttl_ms = 1'200'000;
  effective = effective_settings(address, &plan);
  choice = choose_settings(input, "s-1/a");
  EXPECT_EQ(choice.broker_name, recorded);
  ASSERT_TRUE(choice.exact.has_value());
  EXPECT_EQ(choice.exact->expiry_delay, 1'200'000);
  EXPECT_EQ(choice.exact->max_size_bytes, -1);
  plan.id.uid = "plan-2";
  address.extras.reset();
  effective = effective_settings(address, &plan);
  choice = choose_settings(input, "s-1/a");
  EXPECT_EQ(choice.broker_name, recorded);
  EXPECT_EQ(choice.settings_class, "");
  EXPECT_TRUE(choice.exact.has_value());
  // A space's limit is a queue's when it has none; a page is never larger (MS-041).
  input.recorded = {};
  plan.settings = {};
  effective = effective_settings(address, &plan);
  EXPECT_EQ(choose_settings(input, "s-1/a").broker_name, "s-1/a");
  input.space_memory = 1 << 20;
  choice = choose_settings(input, "s-1/a");
  EXPECT_EQ(choice.settings_class, settings_class_name("plan-2", "s-1"));
  EXPECT_EQ(choice.of_class.max_size_bytes, 1 << 20);
  EXPECT_EQ(choice.of_class.page_size_bytes, 1 << 20);
  input.transactional = true;
  choice = choose_settings(input, "s-1/a");
  EXPECT_EQ(choice.broker_name, "s-1/a");
  EXPECT_TRUE(choice.exact.has_value());
}

}  // namespace
}  // namespace kintsugi::workers
