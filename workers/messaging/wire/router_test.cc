// What is said to routers, and what their answers mean: the recorded exchanges, byte for byte.
#include <gtest/gtest.h>

#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

std::string rendered(const ManagementRequest& request) {
  Json out = Json::object();
  out["properties"] = wire::attributes_json(request.properties);
  out["body"] = wire::attributes_json(std::get<Attributes>(request.body));
  return out.dump();
}

Json json(std::string_view text) {
  auto out = Json::parse(text);
  EXPECT_TRUE(out.has_value()) << text;
  return out ? std::move(*out) : Json();
}

ManagementReply answer(std::int64_t code, std::string_view text, std::string_view body = "null") {
  ManagementReply out;
  out.properties = Json::object({{"statusCode", code}, {"statusDescription", text}});
  out.body = json(body);
  return out;
}

DesiredEntity address() {
  return {EntityKind::kAddress,
          "ktg.o.addr.x",
          {{"pattern", std::string("s-1/a")},
           {"distribution", std::string("balanced")},
           {"waypoint", true}}};
}
DesiredEntity connector() {
  return {EntityKind::kConnector,
          "ktg.o.con.x",
          {{"host", std::string("127.0.0.1")},
           {"port", std::string("25000")},
           {"role", std::string("route-container")},
           {"cost", std::int64_t{1}},
           {"idleTimeoutSeconds", std::int64_t{16}}}};
}
DesiredEntity auto_link(std::string direction) {
  return {EntityKind::kAutoLink,
          "ktg.o.al.x",
          {{"address", std::string("s-1/a")},
           {"direction", std::move(direction)},
           {"connection", std::string("ktg.o.con.x")},
           {"externalAddress", std::string("s-1/a")}}};
}
DesiredEntity link_route() {
  return {EntityKind::kLinkRoute,
          "ktg.o.lr.x",
          {{"prefix", std::string("s-1/t")},
           {"direction", std::string("in")},
           {"connection", std::string("ktg.o.con.x")}}};
}
DesiredEntity vhost(std::int64_t connections = 10) {
  return {EntityKind::kVhost,
          "ktg.o.vh.x",
          {{"hostname", std::string("s-1")},
           {"aliases", std::string("a,b")},
           {"maxConnections", connections},
           {"allowUnknownUser", true},
           {"groups", Attributes{{"$default", Attributes{{"remoteHosts", std::string("*")},
                                                         {"maxSenders", std::int64_t{2}}}}}}}};
}
DesiredEntity listener() {
  return {EntityKind::kListener, "ktg.o.lis.x", {{"port", std::string("5672")}}};
}
DesiredEntity ssl_profile() {
  return {EntityKind::kSslProfile, "ktg.o.ssl.x", {{"certFile", std::string("/x/tls.crt")}}};
}

TEST(ManagementWire, S6_RouterRequestsAreAsRecorded) {
  const struct {
    Operation operation;
    DesiredEntity entity;
    std::string_view sent;
  } rows[] = {
      {Operation::kCreate, address(),
       R"({"body":{"distribution":"balanced","pattern":"s-1/a","waypoint":true},"properties":{"name":"ktg.o.addr.x","operation":"CREATE","type":"org.apache.qpid.dispatch.router.config.address"}})"},
      {Operation::kRead, address(),
       R"({"body":{},"properties":{"name":"ktg.o.addr.x","operation":"READ","type":"org.apache.qpid.dispatch.router.config.address"}})"},
      {Operation::kDelete, address(),
       R"({"body":{},"properties":{"name":"ktg.o.addr.x","operation":"DELETE","type":"org.apache.qpid.dispatch.router.config.address"}})"},
      {Operation::kCreate, connector(),
       R"({"body":{"cost":1,"host":"127.0.0.1","idleTimeoutSeconds":16,"port":"25000","role":"route-container"},"properties":{"name":"ktg.o.con.x","operation":"CREATE","type":"org.apache.qpid.dispatch.connector"}})"},
      {Operation::kRead, connector(),
       R"({"body":{},"properties":{"name":"ktg.o.con.x","operation":"READ","type":"org.apache.qpid.dispatch.connector"}})"},
      {Operation::kCreate, auto_link("in"),
       R"({"body":{"address":"s-1/a","connection":"ktg.o.con.x","direction":"in","externalAddress":"s-1/a"},"properties":{"name":"ktg.o.al.x","operation":"CREATE","type":"org.apache.qpid.dispatch.router.config.autoLink"}})"},
      {Operation::kCreate, link_route(),
       R"({"body":{"connection":"ktg.o.con.x","direction":"in","prefix":"s-1/t"},"properties":{"name":"ktg.o.lr.x","operation":"CREATE","type":"org.apache.qpid.dispatch.router.config.linkRoute"}})"},
      {Operation::kCreate, vhost(),
       R"({"body":{"aliases":"a,b","allowUnknownUser":true,"groups":{"$default":{"maxSenders":2,"remoteHosts":"*"}},"hostname":"s-1","maxConnections":10},"properties":{"name":"ktg.o.vh.x","operation":"CREATE","type":"org.apache.qpid.dispatch.vhost"}})"},
      {Operation::kUpdate, vhost(),
       R"({"body":{"aliases":"a,b","allowUnknownUser":true,"groups":{"$default":{"maxSenders":2,"remoteHosts":"*"}},"maxConnections":10},"properties":{"name":"ktg.o.vh.x","operation":"UPDATE","type":"org.apache.qpid.dispatch.vhost"}})"},
      {Operation::kCreate, listener(),
       R"({"body":{"port":"5672"},"properties":{"name":"ktg.o.lis.x","operation":"CREATE","type":"org.apache.qpid.dispatch.listener"}})"},
      {Operation::kCreate, ssl_profile(),
       R"({"body":{"certFile":"/x/tls.crt"},"properties":{"name":"ktg.o.ssl.x","operation":"CREATE","type":"org.apache.qpid.dispatch.sslProfile"}})"},
  };
  for (const auto& row : rows) {
    const auto request = entity_request(row.operation, row.entity);
    ASSERT_TRUE(request.has_value()) << row.sent;
    EXPECT_EQ(rendered(*request), row.sent);
  }
}

TEST(ManagementWire, MH7_AliasesAreEmptiedBeforeAVhostGoes) {
  EXPECT_EQ(
      rendered(clear_aliases_request("ktg.o.vh.x")),
      R"({"body":{"aliases":""},"properties":{"name":"ktg.o.vh.x","operation":"UPDATE","type":"org.apache.qpid.dispatch.vhost"}})");
}

TEST(ManagementWire, MH3_MH4_MS043_MS060_WhatRoutersCannotDoIsNotSent) {
  const DesiredEntity all[] = {address(),     auto_link("in"), link_route(), connector(),
                               ssl_profile(), listener(),      vhost()};
  for (const DesiredEntity& entity : all) {
    for (const Operation operation :
         {Operation::kCreate, Operation::kRead, Operation::kUpdate, Operation::kDelete}) {
      const bool allowed = operation != Operation::kUpdate || entity.kind == EntityKind::kVhost;
      EXPECT_EQ(is_allowed(entity.kind, operation), allowed);
      EXPECT_EQ(entity_request(operation, entity).has_value(), allowed);
      DesiredEntity named = entity;
      named.name = std::string(200, 'n');
      EXPECT_EQ(entity_request(operation, named).has_value(), allowed);
      named.name += 'n';
      const auto refused = entity_request(operation, named);
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code(), Errc::kInvalid);
      named.name.clear();
      EXPECT_FALSE(entity_request(operation, named).has_value());
    }
  }
}

TEST(ManagementWire, MH8_AgentTypesAreAllButThoseOfTheCore) {
  for (const auto kind : {EntityKind::kVhost, EntityKind::kListener, EntityKind::kSslProfile,
                          EntityKind::kConnector}) {
    EXPECT_TRUE(is_agent_kind(kind));
  }
  for (const auto kind : {EntityKind::kAddress, EntityKind::kAutoLink, EntityKind::kLinkRoute,
                          EntityKind::kBrokerAddress, EntityKind::kQueue,
                          EntityKind::kAddressSettings, EntityKind::kDivert}) {
    EXPECT_FALSE(is_agent_kind(kind));
  }
}

struct AnswerRow {
  Operation operation;
  DesiredEntity entity;
  ManagementReply reply;
  Verdict verdict;
};

void expect_rows(const std::vector<AnswerRow>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const AnswerRow& row = rows[i];
    const EntityOutcome out = entity_outcome(row.operation, row.entity, row.reply);
    EXPECT_EQ(out.verdict, row.verdict) << "row " << i;
    EXPECT_EQ(out.code, row.reply.properties.find("statusCode")->as_integer()) << "row " << i;
    EXPECT_EQ(out.text, row.reply.properties.text({"statusDescription"})) << "row " << i;
    const bool has_entity = row.verdict == Verdict::kDone || row.verdict == Verdict::kDifferent;
    EXPECT_EQ(out.body, has_entity ? row.reply.body : Json()) << "row " << i;
  }
}

TEST(ManagementWire, S6_MH11_CreatesAreUnderstoodAsRecorded) {
  constexpr auto kCreate = Operation::kCreate;
  const DesiredEntity zero = vhost(0);
  expect_rows({
      {kCreate, address(),
       answer(201, "Created",
              R"({"pattern":"s-1/a","prefix":null,"distribution":"balanced","waypoint":true,
                  "name":"ktg.o.addr.x","type":"org.apache.qpid.dispatch.router.config.address",
                  "identity":"3","ingressPhase":0,"egressPhase":1,"priority":-1,
                  "fallback":false})"),
       Verdict::kDone},
      {kCreate, address(), answer(400, "Name conflicts with an existing entity"), Verdict::kExists},
      {kCreate, address(), answer(400, "Already exists"), Verdict::kRefused},
      {kCreate, connector(),
       answer(201, "Created",
              R"({"host":"127.0.0.1","port":"25000","role":"route-container","cost":1,
                  "idleTimeoutSeconds":16,"identity":"connector/127.0.0.1:25000:ktg.o.con.x",
                  "connectionStatus":"CONNECTING","connectionMsg":""})"),
       Verdict::kDone},
      {kCreate, auto_link("in"),
       answer(201, "Created",
              R"({"address":"s-1/a","direction":"in","connection":"ktg.o.con.x","phase":1,
                  "externalAddress":"s-1/a","operStatus":"inactive","lastError":null,
                  "linkRef":null,"containerId":null})"),
       Verdict::kDone},
      {kCreate, auto_link("out"),
       answer(201, "Created",
              R"({"address":"s-1/a","direction":"out","connection":"ktg.o.con.x","phase":0,
                  "externalAddress":"s-1/a","operStatus":"inactive","lastError":null,
                  "linkRef":null,"containerId":null})"),
       Verdict::kDone},
      {kCreate, link_route(),
       answer(201, "Created",
              R"({"prefix":"s-1/t","direction":"in","connection":"ktg.o.con.x",
                  "distribution":"linkBalanced","operStatus":"inactive",
                  "addExternalPrefix":null,"delExternalPrefix":null})"),
       Verdict::kDone},
      {kCreate, vhost(),
       answer(201, "Created",
              R"({"identity":"vhost/s-1","hostname":"s-1","aliases":"a,b","maxConnections":10,
                  "maxConnectionsPerUser":65535,"maxConnectionsPerHost":65535,
                  "allowUnknownUser":true,
                  "groups":{"$default":{"remoteHosts":"*","maxSenders":2}}})"),
       Verdict::kDone},
      {kCreate, vhost(),
       answer(400,
              "adding VhostEntity(hostname=s-1, name=ktg.o.vh.x) duplicates unique attribute "
              "'name' from existing VhostEntity(hostname=s-1, name=ktg.o.vh.x)"),
       Verdict::kExists},
      {kCreate, vhost(),
       answer(400,
              "adding VhostEntity(hostname=s-1) duplicates unique attribute 'hostname' from "
              "existing VhostEntity(hostname=s-1)"),
       Verdict::kRefused},
      {kCreate, listener(), answer(201, "Created", R"({"port":"5672"})"), Verdict::kDone},
      {kCreate, ssl_profile(), answer(201, "Created", R"({"certFile":"/x/tls.crt"})"),
       Verdict::kDone},
      {kCreate, connector(),
       answer(400, "ValidationError: Invalid value for 'role': 'x' is not in"), Verdict::kRefused},
      {kCreate, vhost(-1), answer(500, "PolicyError: maxConnections '-1' is below minimum '0'"),
       Verdict::kRefused},
      {kCreate, zero,
       answer(201, "Created",
              R"({"hostname":"s-1","aliases":"a,b","maxConnections":0,"allowUnknownUser":true,
                  "groups":{"$default":{"remoteHosts":"*","maxSenders":2}}})"),
       Verdict::kDone},
      {kCreate, vhost(), answer(400, "No such entity type 'org.apache.qpid.dispatch.vhost'"),
       Verdict::kRefused},
      {kCreate, vhost(), answer(401, "Unauthorized"), Verdict::kForbidden},
      {kCreate, vhost(), answer(404, "Not Found"), Verdict::kRefused},
  });
}

TEST(ManagementWire, S6_ReadsUpdatesAndDeletesAreUnderstoodAsRecorded) {
  constexpr std::string_view kMerged =
      R"({"identity":"vhost/s-1","hostname":"s-1","aliases":"a,b","maxConnections":10,
          "allowUnknownUser":true,"maxConnectionsPerUser":65535,
          "groups":{"$default":{"remoteHosts":"*","maxSenders":2}}})";
  expect_rows({
      {Operation::kUpdate, vhost(), answer(200, "OK", kMerged), Verdict::kDone},
      {Operation::kUpdate, vhost(11), answer(200, "OK", kMerged), Verdict::kDifferent},
      {Operation::kUpdate, vhost(), answer(400, "Cannot update attribute 'hostname' in UPDATE"),
       Verdict::kRefused},
      {Operation::kUpdate, vhost(), answer(404, "No entity with name=ktg.o.vh.x"),
       Verdict::kMissing},
      {Operation::kUpdate, connector(),
       answer(501,
              "Operation 'UPDATE' not implemented for 'org.apache.qpid.dispatch.connector' "
              "['CREATE', 'DELETE', 'READ']"),
       Verdict::kRefused},
      {Operation::kRead, address(), answer(404, "Not Found"), Verdict::kMissing},
      {Operation::kRead, address(), answer(403, "Forbidden"), Verdict::kForbidden},
      {Operation::kRead, address(), answer(400, "No such entity type 'x'"), Verdict::kRefused},
      {Operation::kDelete, address(), answer(204, "No Content"), Verdict::kDone},
      {Operation::kDelete, address(), answer(404, "Not Found"), Verdict::kMissing},
      {Operation::kDelete, address(), answer(400, "No name or identity provided"),
       Verdict::kRefused},
      {Operation::kDelete, listener(), answer(400, "HTTP listeners cannot be deleted"),
       Verdict::kRefused},
  });
}

TEST(ManagementWire, MH10_WhatWasStoredOtherwiseIsSeen) {
  expect_rows({
      {Operation::kCreate, address(),
       answer(201, "Created", R"({"pattern":"s-1/a","distribution":"balanced","waypoint":false})"),
       Verdict::kDifferent},
      {Operation::kCreate,
       {EntityKind::kAddress, "n", {{"distribution", std::string("bogus")}}},
       answer(201, "Created", R"({"distribution":"balanced"})"),
       Verdict::kDifferent},
      {Operation::kRead, auto_link("in"),
       answer(200, "OK",
              R"({"address":"s-1/a","direction":"in","connection":"other",
                  "externalAddress":"s-1/a"})"),
       Verdict::kDifferent},
  });
}

TEST(ManagementWire, S6_MH12_LinksAndConnectorsTellTheirState) {
  const struct {
    EntityKind kind;
    std::string_view body;
    LinkState state;
    std::string_view message;
  } rows[] = {
      {EntityKind::kConnector,
       R"({"connectionStatus":"CONNECTING","connectionMsg":"[C8] Connection to h:25000 failed: Connection refused - disconnected"})",
       LinkState::kInactive,
       "[C8] Connection to h:25000 failed: Connection refused - disconnected"},
      {EntityKind::kConnector,
       R"({"connectionStatus":"SUCCESS","connectionMsg":"[C8] Connection Opened: dir=out host=h container_id=b0"})",
       LinkState::kActive, "[C8] Connection Opened: dir=out host=h container_id=b0"},
      {EntityKind::kConnector, R"({"connectionStatus":"FAILED","connectionMsg":null})",
       LinkState::kInactive, ""},
      {EntityKind::kAutoLink, R"({"operStatus":"inactive","lastError":null})", LinkState::kInactive,
       ""},
      {EntityKind::kAutoLink, R"({"operStatus":"failed","lastError":"no\nqueue"})",
       LinkState::kInactive, "no queue"},
      {EntityKind::kAutoLink, R"({"operStatus":"active","lastError":null})", LinkState::kActive,
       ""},
      {EntityKind::kLinkRoute, R"({"operStatus":"active"})", LinkState::kActive, ""},
      {EntityKind::kLinkRoute, R"({"operStatus":7})", LinkState::kUnknown, ""},
      {EntityKind::kAutoLink, "null", LinkState::kUnknown, ""},
      {EntityKind::kVhost, R"({"operStatus":"active"})", LinkState::kUnknown, ""},
  };
  for (const auto& row : rows) {
    const LinkStatus status = link_status(row.kind, json(row.body));
    EXPECT_EQ(status.state, row.state) << row.body;
    EXPECT_EQ(status.message, row.message) << row.body;
  }
}

TEST(ManagementWire, S6_QueriesAreAsRecorded) {
  const std::string_view columns[] = {"name", "operStatus"};
  EXPECT_EQ(
      rendered(query_request(router_type(EntityKind::kAutoLink), columns, 500, 1000)),
      R"({"body":{"attributeNames":["name","operStatus"]},"properties":{"count":1000,"entityType":"org.apache.qpid.dispatch.router.config.autoLink","offset":500,"operation":"QUERY"}})");
  EXPECT_EQ(
      rendered(query_request(kRouterType, {}, 0, 1)),
      R"({"body":{"attributeNames":[]},"properties":{"count":1,"entityType":"org.apache.qpid.dispatch.router","offset":0,"operation":"QUERY"}})");
  EXPECT_EQ(
      rendered(router_counters_request()),
      R"({"body":{"attributeNames":["addrCount","linkCount","autoLinkCount","linkRouteCount","connectionCount","memoryUsage","uptimeSeconds","id"]},"properties":{"count":1,"entityType":"org.apache.qpid.dispatch.router","offset":0,"operation":"QUERY"}})");
}

TEST(ManagementWire, S6_TablesAreReadRowByRow) {
  const auto page = query_page(
      answer(200, "OK", R"({"attributeNames":["name","x"],"results":[["a",1],["b",null]]})"));
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(page->columns, (std::vector<std::string>{"name", "x"}));
  EXPECT_EQ(page->rows, (std::vector<Json>{json(R"(["a",1])"), json(R"(["b",null])")}));
  // A short type name, and an offset beyond the end.
  const auto none = query_page(answer(200, "OK", R"({"attributeNames":[],"results":[]})"));
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->rows.empty());
  const auto fault = [](const ManagementReply& reply) {
    const auto read = query_page(reply);
    return read ? Errc::kOk : read.error().code();
  };
  for (const std::string_view body :
       {"null", "[]", R"({"attributeNames":["a"]})", R"({"results":[]})",
        R"({"attributeNames":["a"],"results":{}})", R"({"attributeNames":[1],"results":[]})",
        R"({"attributeNames":["a"],"results":[1]})",
        R"({"attributeNames":["a","b"],"results":[["x","y"],["x"]]})",
        R"({"attributeNames":["a"],"results":[["x","y"]]})"}) {
    EXPECT_EQ(fault(answer(200, "OK", body)), Errc::kInvalid) << body;
  }
  EXPECT_EQ(fault(answer(403, "Forbidden")), Errc::kForbidden);
  EXPECT_EQ(fault(answer(401, "Unauthorized")), Errc::kForbidden);
  EXPECT_EQ(fault(answer(500, "x")), Errc::kUnavailable);
  EXPECT_EQ(query_page(answer(500, "no\x01 good")).error().message(), "500 no? good");
  EXPECT_EQ(fault({}), Errc::kInvalid);
}

TEST(ManagementWire, MH5_MS061_PagesStayBelowTheDecodersBound) {
  for (const std::int64_t columns : {1, 2, 7, 13, 30, 48, 200, 29'996}) {
    const std::int64_t rows = most_rows(static_cast<std::size_t>(columns));
    EXPECT_LT(rows * (columns + 1) + columns + 6, 60'000) << columns;
    EXPECT_GE((rows + 1) * (columns + 1) + columns + 6, 60'000) << columns;
  }
  EXPECT_EQ(most_rows(2), 19'997);
  EXPECT_EQ(most_rows(0), most_rows(48));
  EXPECT_EQ(most_rows(~std::size_t{0}), 1);
  const auto table = [](std::int64_t rows) {
    Json body = json(R"({"attributeNames":["a","b"]})");
    Json results = Json::array();
    for (std::int64_t i = 0; i < rows; ++i) {
      results.push_back(Json::array({i, "x"}));
    }
    body["results"] = std::move(results);
    ManagementReply reply = answer(200, "OK");
    reply.body = std::move(body);
    return reply;
  };
  const auto whole = query_page(table(most_rows(2)));
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->rows.size(), 19'997U);
  const auto cut = query_page(table(most_rows(2) + 1));
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code(), Errc::kInvalid);
}

TEST(ManagementWire, S6_MS066_CountersAreOneRow) {
  const auto read = [](std::string_view results) {
    return router_counters(answer(
        200, "OK",
        R"({"attributeNames":["addrCount","linkCount","autoLinkCount","linkRouteCount","connectionCount","memoryUsage","uptimeSeconds","id"],"results":)" +
            std::string(results) + "}"));
  };
  const auto counters = read(R"([[12,7,4,2,3,104857600,93,"R1"]])");
  ASSERT_TRUE(counters.has_value());
  EXPECT_EQ(counters->addresses, 12);
  EXPECT_EQ(counters->links, 7);
  EXPECT_EQ(counters->auto_links, 4);
  EXPECT_EQ(counters->link_routes, 2);
  EXPECT_EQ(counters->connections, 3);
  EXPECT_EQ(counters->memory, 104857600);
  EXPECT_EQ(counters->uptime_seconds, 93);
  EXPECT_EQ(counters->id, "R1");
  EXPECT_TRUE(read(R"([[12,7,4,2,3,null,93,null]])").has_value());
  for (const std::string_view bad :
       {"[]", R"([[1,1,1,1,1,1,1,"a"],[1,1,1,1,1,1,1,"b"]])", R"([["1",1,1,1,1,1,1,"a"]])",
        R"([[1,1,1,1,1,1,null,"a"]])", R"([[-1,1,1,1,1,1,1,"a"]])",
        R"([[1,1,18446744073709551615,1,1,1,1,"a"]])"}) {
    EXPECT_FALSE(read(bad).has_value()) << bad;
  }
}

TEST(ManagementWire, S16_MS062_AnswersOfAnotherShapeAreNone) {
  for (const std::string_view properties :
       {"null", "[]", "{}", R"({"statusCode":"201"})", R"({"statusCode":null})",
        R"({"statusCode":201.5})", R"({"statusCode":18446744073709551615})"}) {
    const EntityOutcome out =
        entity_outcome(Operation::kCreate, address(), {json(properties), Json::object()});
    EXPECT_EQ(out.verdict, Verdict::kMalformed) << properties;
    EXPECT_FALSE(out.text.empty());
  }
  for (const std::string_view body : {"null", "[]", R"("text")", "7"}) {
    for (const Operation operation : {Operation::kCreate, Operation::kRead, Operation::kUpdate}) {
      EXPECT_EQ(entity_outcome(operation, vhost(), answer(200, "OK", body)).verdict,
                Verdict::kMalformed);
    }
    EXPECT_EQ(entity_outcome(Operation::kDelete, vhost(), answer(204, "No Content", body)).verdict,
              Verdict::kDone);
  }
}

TEST(ManagementWire, MS072_PasswordsAreNeitherComparedNorTold) {
  DesiredEntity entity = connector();
  entity.attributes.emplace_back("saslPassword", std::string("hush"));
  const EntityOutcome done =
      entity_outcome(Operation::kCreate, entity,
                     answer(201, "Created",
                            R"({"host":"127.0.0.1","port":"25000","role":"route-container","cost":1,
                 "idleTimeoutSeconds":16,"saslPassword":"*****"})"));
  EXPECT_EQ(done.verdict, Verdict::kDone);
  EXPECT_EQ(done.body.find("saslPassword"), nullptr);
  const EntityOutcome refused =
      entity_outcome(Operation::kCreate, entity,
                     answer(400, "adding ConnectorEntity(saslPassword=hush, x=hush) is refused"));
  EXPECT_EQ(refused.text, "adding ConnectorEntity(saslPassword=***, x=***) is refused");
  // Also where it stands across the place at which a text is cut.
  const EntityOutcome cut =
      entity_outcome(Operation::kCreate, entity, answer(400, std::string(510, 'x') + "hush"));
  EXPECT_EQ(cut.text, std::string(510, 'x') + "**");
}

TEST(ManagementWire, S114_TextsArePrintableAndShort) {
  EXPECT_EQ(wire::printable("a\nb\tc\x7f\x01"), "a b c??");
  EXPECT_EQ(wire::printable("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(wire::printable("\xc3(\xff\xe2\x82"), "?(???");
  EXPECT_EQ(wire::printable("\xc0\x80\xed\xa0\x80"), "?????");  // overlong, surrogate
  EXPECT_EQ(wire::printable("\xe2\x80\xae"
                            "a\xc2\x85"),
            "?a?");  // turns the text; C1
  EXPECT_EQ(wire::printable(std::string(600, 'a')).size(), 512U);
  EXPECT_EQ(wire::printable(std::string(511, 'a') + "\xc3\xa4").size(), 511U);
}

TEST(ManagementWire, S16_RoutersBefore112AreNotSupported) {
  for (const std::string_view good : {"1.12", "1.12.0", "1.19.0", "1.19.0-SNAPSHOT", "2.0.1"}) {
    EXPECT_TRUE(is_supported_router("qpid-dispatch-router", good)) << good;
  }
  for (const std::string_view bad :
       {"1.11.9", "0.19", "", "1", "x.y", "1.", ".12", "1.x", "99999999999.1", "-1.19"}) {
    EXPECT_FALSE(is_supported_router("qpid-dispatch-router", bad)) << bad;
  }
  EXPECT_FALSE(is_supported_router("skupper-router", "1.19.0"));
  EXPECT_FALSE(is_supported_router("", "1.19.0"));
}

}  // namespace
}  // namespace kintsugi::workers
