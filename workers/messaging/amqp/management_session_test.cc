// A session against a management node on Proton's own engine, two machines joined in memory.
#include "workers/messaging/amqp/management_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "workers/messaging/amqp/internal/amqp_codec.h"
#include "workers/messaging/amqp/testing/joined.h"

namespace kintsugi::workers {
namespace {

using amqp_testing::Joined;
using amqp_testing::ManagementPeer;
using amqp_testing::read_request;
using amqp_testing::session_params;
using State = ManagementSession::State;

TEST(ManagementSession, WhenTheLinksAreAttached_ItIsReadyAndKnowsThePeer) {
  for (const std::size_t piece : {1U << 20U, 1U, 7U}) {
    Joined j(session_params(), {}, piece);
    EXPECT_EQ(j.session.state(), State::kOpening);
    EXPECT_EQ(j.session.room(), 0U);
    j.run();
    ASSERT_EQ(j.session.state(), State::kReady) << j.session.fault();
    EXPECT_EQ(j.session.peer().product, "qpid-dispatch-router");
    EXPECT_EQ(j.session.peer().version, "1.19.0");
    EXPECT_EQ(j.session.peer().container, "R1");
    EXPECT_EQ(j.session.room(), 100U);
    EXPECT_EQ(j.peer.init, "ANONYMOUS|anonymous|router.example");
    pn_connection_t* theirs = j.peer.connection();
    EXPECT_STREQ(pn_connection_remote_container(theirs), "kintsugi-1");
    EXPECT_STREQ(pn_connection_remote_hostname(theirs), "router.example");
    EXPECT_EQ(pn_transport_get_remote_max_frame(j.peer.transport()), 1U << 20U);
    EXPECT_EQ(pn_transport_get_remote_idle_timeout(j.peer.transport()), 8'000U);
    EXPECT_TRUE(pn_terminus_is_dynamic(pn_link_remote_source(j.peer.answers_link())));
    EXPECT_STREQ(pn_terminus_get_address(pn_link_remote_target(j.peer.requests_link())),
                 "$management");
    EXPECT_EQ(pn_link_remote_max_message_size(j.peer.answers_link()), 8U << 20U);
    EXPECT_GE(j.peer.credit(), 110);
  }
}

TEST(ManagementSession, MH6_RequestsHaveTextsAsCorrelationAndTheAddressForAnswers) {
  Joined j;
  j.run();
  const Attributes groups{{"$default", Attributes{{"maxSenders", std::int64_t{2}}}}};
  ManagementRequest request;
  request.properties = {{"operation", std::string("CREATE")}, {"name", std::string("ktg.a.vh.1")}};
  request.body = Attributes{{"hostname", std::string("s-1")},
                            {"maxConnections", std::int64_t{10}},
                            {"large", std::int64_t{1'000}},
                            {"huge", std::int64_t{1} << 40U},
                            {"low", std::int64_t{-129}},
                            {"allowUnknownUser", true},
                            {"waypoint", false},
                            {"groups", groups}};
  EXPECT_EQ(j.session.submit(request, j.now), 1U);
  j.run();
  ASSERT_EQ(j.peer.requests.size(), 1U);
  const auto& got = j.peer.requests.front();
  EXPECT_EQ(got.correlation, "0.1");
  EXPECT_EQ(got.reply_to, "amqp:/_topo/0/R1/temp.1");
  EXPECT_TRUE(got.presettled);
  EXPECT_EQ(got.properties, R"({"operation"="CREATE", "name"="ktg.a.vh.1"})");
  EXPECT_EQ(got.body,
            R"({"hostname"="s-1", "maxConnections"=10, "large"=1000, "huge"=1099511627776, )"
            R"("low"=-129, "allowUnknownUser"=true, "waypoint"=false, )"
            R"("groups"={"$default"={"maxSenders"=2}}})");
  j.peer.answer(got.correlation, ManagementPeer::status(201, "Created"), [](pn_data_t* data) {
    pn_data_put_map(data);
    pn_data_enter(data);
    ManagementPeer::put(data, "identity");
    ManagementPeer::put(data, "vhost/s-1");
    ManagementPeer::put(data, "maxConnections");
    pn_data_put_ulong(data, 10);
    ManagementPeer::put(data, "aliases");
    pn_data_put_null(data);
    pn_data_exit(data);
  });
  j.run();
  const auto answers = j.answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].id, 1U);
  ASSERT_TRUE(answers[0].reply);
  EXPECT_EQ(answers[0].reply->properties.dump(),
            R"({"statusCode":201,"statusDescription":"Created"})");
  EXPECT_EQ(answers[0].reply->body.dump(),
            R"({"aliases":null,"identity":"vhost/s-1","maxConnections":10})");
  EXPECT_EQ(j.session.in_flight(), 0U);
  EXPECT_EQ(j.session.unknown_answers(), 0U);
}

TEST(ManagementSession, WhenItIsABroker_AnswersAreAcceptedAndSettled) {
  ManagementPeer::Options options;
  options.presettles = false;
  Joined j(session_params(ComponentKind::kBroker), options);
  j.run();
  EXPECT_STREQ(pn_terminus_get_address(pn_link_remote_target(j.peer.requests_link())),
               "activemq.management");
  ManagementRequest request;
  request.properties = {{"_AMQ_ResourceName", std::string("broker")},
                        {"_AMQ_OperationName", std::string("createAddress")}};
  request.body = std::string(R"(["ns1/q1","ANYCAST"])");
  for (int i = 0; i < 300; ++i) {
    ASSERT_NE(j.session.submit(request, j.now), 0U);
    j.run();
    const auto got = j.peer.requests.back();
    EXPECT_FALSE(got.presettled);
    EXPECT_EQ(got.body, R"("[\x22ns1/q1\x22,\x22ANYCAST\x22]")");
    if (i % 2 == 0) {  // what it says of the request comes before the answer, or after it
      j.peer.settle(got, PN_ACCEPTED);
    }
    j.peer.answer(
        got.correlation,
        [](pn_data_t* data) {
          pn_data_put_map(data);
          pn_data_enter(data);
          ManagementPeer::put(data, "_AMQ_OperationSucceeded");
          pn_data_put_bool(data, true);
          pn_data_exit(data);
        },
        ManagementPeer::text(R"(["Address [name=ns1/q1]"])"));
    if (i % 2 != 0) {
      j.peer.settle(got, PN_ACCEPTED);
    }
    j.run();
    ASSERT_EQ(j.answers().size(), 1U);
  }
  EXPECT_EQ(j.peer.accepted, 300U);
  EXPECT_EQ(j.peer.settled, 300U);
  EXPECT_GE(j.peer.credit(), 110);
  EXPECT_EQ(pn_link_unsettled(j.peer.requests_link()), 0);
  EXPECT_EQ(j.session.state(), State::kReady);
}

TEST(ManagementSession, WhenABrokerRejectsARequest_ThatIsItsAnswer) {
  Joined j(session_params(ComponentKind::kBroker));
  j.run();
  (void)j.session.submit(read_request("a"), j.now);
  (void)j.session.submit(read_request("b"), j.now);
  j.run();
  j.peer.settle(j.peer.requests[1], PN_REJECTED, "amqp:unauthorized-access");
  j.peer.settle(j.peer.requests[0], PN_RELEASED);
  j.run();
  auto answers = j.answers();
  ASSERT_EQ(answers.size(), 2U);
  std::sort(answers.begin(), answers.end(), [](auto& a, auto& b) { return a.id < b.id; });
  EXPECT_FALSE(answers[0].reply);
  ASSERT_TRUE(answers[1].reply);
  EXPECT_EQ(answers[1].reply->properties.dump(), R"({"_AMQ_OperationSucceeded":false})");
  EXPECT_EQ(answers[1].reply->body.as_string(), R"(["amqp:unauthorized-access: not you"])");
  EXPECT_EQ(j.session.room(), 100U);
}

TEST(ManagementSession, MS_062_AnswersOutOfOrderUnknownOrWithoutACodeAreTolerated) {
  Joined j;
  j.run();
  for (int i = 0; i < 3; ++i) {
    (void)j.session.submit(read_request(), j.now);
  }
  j.run();
  const auto nothing = [](pn_data_t* data) { pn_data_put_null(data); };
  j.peer.answer(j.peer.requests[2].correlation, ManagementPeer::status(200), nothing);
  for (const char* unknown : {"", "9.9", "0.2", "0", "0.", ".1", "a", "0.1x", "100.1",
                              "18446744073709551616.1", "0.18446744073709551617"}) {
    j.peer.answer(unknown, ManagementPeer::status(200), nothing);
  }
  j.peer.answer(
      j.peer.requests[0].correlation, [](pn_data_t*) {}, nothing);
  j.peer.answer(j.peer.requests[0].correlation, ManagementPeer::status(200), nothing);
  j.peer.answer(j.peer.requests[1].correlation, ManagementPeer::status(404, "Not Found"), nothing);
  j.run();
  const auto answers = j.answers();
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].id, 3U);
  EXPECT_EQ(answers[1].id, 1U);
  EXPECT_TRUE(answers[1].reply->properties.members().empty());
  EXPECT_EQ(answers[2].id, 2U);
  EXPECT_EQ(answers[2].reply->properties.find("statusCode")->as_integer(), 404);
  EXPECT_EQ(j.session.unknown_answers(), 12U);
  EXPECT_EQ(j.session.state(), State::kReady);
}

TEST(ManagementSession, MS_061_APageOf50000RowsComesWhole) {
  for (const std::size_t piece : {1U << 20U, 1U << 16U, 4'099U}) {
    Joined j(session_params(), {}, piece);
    j.run();
    (void)j.session.submit(read_request(), j.now);
    j.run();
    constexpr int kRows = 25'000;
    j.peer.answer(j.peer.requests[0].correlation, ManagementPeer::status(200), [](pn_data_t* data) {
      pn_data_put_list(data);
      pn_data_enter(data);
      for (int i = 0; i < kRows; ++i) {
        pn_data_put_list(data);
        pn_data_enter(data);
        ManagementPeer::put(data, "ktg.shard-1.addr." + std::to_string(i));
        pn_data_exit(data);
      }
      pn_data_exit(data);
    });
    j.run();
    const auto answers = j.answers();
    ASSERT_EQ(answers.size(), 1U);
    ASSERT_EQ(answers[0].reply->body.size(), static_cast<std::size_t>(kRows));
    EXPECT_EQ(answers[0].reply->body.items().back().dump(), R"(["ktg.shard-1.addr.24999"])");
  }
}

TEST(ManagementSession, MH5_ABodyAboveTheNodesOfProtonIsReadWhole) {
  Joined j;
  j.run();
  (void)j.session.submit(read_request(), j.now);
  j.run();
  using namespace std::string_view_literals;
  std::string message;
  message.assign(
      "\x00\x53\x73\xc0\x0b\x06\x40\x40\x40\x40\x40\xa1\x03"
      "0.1\x00\x53\x77"sv);
  const std::size_t begun = begin_amqp(message, '\xd0');
  message.append(100'000, '\x43');
  end_amqp(message, begun, 100'000);
  j.peer.send_raw(message);
  j.run();
  const auto answers = j.answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].reply->body.size(), 100'000U);
}

TEST(ManagementSession, BH5_WithoutAnAnswerTheRequestEndsAtItsDeadline) {
  Joined j;
  j.run();
  (void)j.session.submit(read_request(), j.now);
  (void)j.session.submit(read_request(), j.now, seconds(3));
  j.run();
  EXPECT_LE(*j.session.next_timer(), j.now + seconds(3));
  j.pass(seconds(3) - milliseconds(1));
  EXPECT_TRUE(j.answers().empty());
  j.pass(milliseconds(1));
  auto answers = j.answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].id, 2U);
  EXPECT_FALSE(answers[0].reply);
  EXPECT_EQ(j.session.in_flight(), 1U);
  j.run();
  j.peer.answer(j.peer.requests[1].correlation, ManagementPeer::status(200),
                [](pn_data_t* data) { pn_data_put_null(data); });
  j.run();
  EXPECT_TRUE(j.answers().empty());
  EXPECT_EQ(j.session.unknown_answers(), 1U);
  j.pass(seconds(7));
  EXPECT_EQ(j.answers().size(), 1U);
  EXPECT_EQ(j.session.state(), State::kReady);
}

TEST(ManagementSession, BH5_NoMoreThanTheWindowAreInFlight) {
  Joined j;
  j.run();
  std::size_t sent = 0;
  while (j.session.submit(read_request(), j.now) != 0) {
    ++sent;
  }
  EXPECT_EQ(sent, 100U);
  EXPECT_EQ(j.session.room(), 0U);
  j.run();
  EXPECT_EQ(j.peer.requests.size(), 100U);
  ManagementPeer::Options few;
  few.credit = 3;
  Joined other(session_params(), few);
  other.run();
  EXPECT_EQ(other.session.room(), 3U);
}

}  // namespace
}  // namespace kintsugi::workers
