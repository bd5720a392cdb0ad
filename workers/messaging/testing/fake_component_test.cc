// The AMQP side of a fake component, seen by a client of Proton's engine over loopback.
#include "workers/messaging/testing/fake_component.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/event.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workers/messaging/testing/proton_json.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr auto kPatience = std::chrono::seconds(10);

class Client {
 public:
  Client(std::uint16_t port, const char* target, int credit) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    (void)::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    pn_connection_driver_init(&driver_, nullptr, nullptr);
    pn_sasl_allowed_mechs(pn_sasl(driver_.transport), "ANONYMOUS");
    pn_connection_set_container(driver_.connection, "test");
    pn_connection_open(driver_.connection);
    pn_session_t* session = pn_session(driver_.connection);
    pn_session_open(session);
    receiver_ = pn_receiver(session, "answers");
    pn_terminus_set_dynamic(pn_link_source(receiver_), true);
    pn_link_open(receiver_);
    pn_link_flow(receiver_, credit);
    sender_ = pn_sender(session, "requests");
    pn_terminus_set_address(pn_link_target(sender_), target);
    pn_link_open(sender_);
  }
  ~Client() {
    pn_connection_driver_destroy(&driver_);
    ::close(fd_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] bool ready() const { return pn_link_credit(sender_) > 0 && !reply_to().empty(); }
  [[nodiscard]] std::string reply_to() const {
    const char* address = pn_terminus_get_address(pn_link_remote_source(receiver_));
    return address == nullptr ? "" : address;
  }
  void send(std::string_view id, std::string_view properties, const Json& body) {
    pn_message_t* message = pn_message();
    pn_message_set_reply_to(message, reply_to().c_str());
    pn_msgid_t correlation{};
    correlation.type = PN_STRING;
    correlation.u.as_bytes = pn_bytes(id.size(), id.data());
    pn_message_set_correlation_id(message, correlation);
    put_json(pn_message_properties(message), *Json::parse(properties));
    put_json(pn_message_body(message), body);
    char bytes[4096];
    std::size_t size = sizeof(bytes);
    EXPECT_EQ(pn_message_encode(message, bytes, &size), 0);
    pn_message_free(message);
    pn_delivery(sender_, pn_dtag(id.data(), id.size()));
    pn_link_send(sender_, bytes, size);
    pn_link_advance(sender_);
  }
  struct Answer {
    std::string id;
    Json properties, body;
    bool settled = false;
  };
  std::vector<Answer> answers;
  bool closed = false;

  /// What may be done without waiting.
  void turn() {
    drain();
    for (pn_bytes_t out{}; (out = pn_connection_driver_write_buffer(&driver_)).size > 0;) {
      const ssize_t n = ::send(fd_, out.start, out.size, MSG_NOSIGNAL);
      if (n <= 0) {
        break;
      }
      pn_connection_driver_write_done(&driver_, static_cast<std::size_t>(n));
    }
    const pn_rwbytes_t in = pn_connection_driver_read_buffer(&driver_);
    const ssize_t n = in.size == 0 ? -1 : ::recv(fd_, in.start, in.size, 0);
    if (n > 0) {
      pn_connection_driver_read_done(&driver_, static_cast<std::size_t>(n));
    } else if (n == 0) {
      closed = true;
    }
    drain();
  }

 private:
  void drain() {
    while (pn_event_t* event = pn_connection_driver_next_event(&driver_)) {
      if (pn_event_type(event) != PN_DELIVERY) {
        continue;
      }
      pn_delivery_t* delivery = pn_event_delivery(event);
      if (pn_delivery_link(delivery) != receiver_ || pn_delivery_partial(delivery) ||
          !pn_delivery_readable(delivery)) {
        continue;
      }
      std::string bytes(pn_delivery_pending(delivery), '\0');
      pn_link_recv(receiver_, bytes.data(), bytes.size());
      Answer& one = answers.emplace_back();
      one.settled = pn_delivery_settled(delivery);
      pn_message_t* message = pn_message();
      EXPECT_EQ(pn_message_decode(message, bytes.data(), bytes.size()), 0);
      const pn_msgid_t id = pn_message_get_correlation_id(message);
      if (id.type == PN_STRING) {
        one.id.assign(id.u.as_bytes.start, id.u.as_bytes.size);
      }
      const auto value = [](pn_data_t* data) {
        pn_data_rewind(data);
        return pn_data_next(data) ? json_of(data) : Json();
      };
      one.properties = value(pn_message_properties(message));
      one.body = value(pn_message_body(message));
      pn_message_free(message);
      pn_delivery_update(delivery, PN_ACCEPTED);
      pn_link_advance(receiver_);
      pn_delivery_settle(delivery);
    }
  }

  int fd_ = -1;
  pn_connection_driver_t driver_{};
  pn_link_t *receiver_ = nullptr, *sender_ = nullptr;
};

/// Lets both do what they can until it holds.
template <class Holds>
bool run(FakeComponent& component, std::initializer_list<Client*> clients, Holds holds) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    for (Client* each : clients) {
      each->turn();
    }
    component.run_once(std::chrono::milliseconds(1));
  }
  return true;
}

constexpr std::string_view kCreate =
    R"({"operation":"CREATE","name":"n","type":"org.apache.qpid.dispatch.router.config.address"})";

TEST(FakeComponents, S6_ARouterAnswersItsConnectionsPresettled) {
  FakeComponent component({});
  const auto port = component.listen();
  ASSERT_TRUE(port.has_value());
  Client one(*port, "$management", 10);
  Client two(*port, "$management", 10);
  ASSERT_TRUE(run(component, {&one, &two}, [&] { return one.ready() && two.ready(); }));
  EXPECT_EQ(one.reply_to().substr(0, 15), "amqp:/_topo/0/R");
  EXPECT_NE(one.reply_to(), two.reply_to());
  one.send("1", kCreate, Json::object({{"pattern", "p"}}));
  ASSERT_TRUE(run(component, {&one, &two}, [&] { return one.answers.size() == 1; }));
  EXPECT_EQ(one.answers[0].id, "1");
  EXPECT_TRUE(one.answers[0].settled);
  EXPECT_EQ(one.answers[0].properties.dump(),
            R"({"statusCode":201,"statusDescription":"Created"})");
  EXPECT_EQ(one.answers[0].body.text({"pattern"}), "p");
  two.send("a", kCreate, Json::object({{"pattern", "p"}}));
  ASSERT_TRUE(run(component, {&one, &two}, [&] { return two.answers.size() == 1; }));
  EXPECT_EQ(two.answers[0].id, "a");
  EXPECT_EQ(two.answers[0].properties.find("statusCode")->as_integer(), 400);
  EXPECT_TRUE(two.answers[0].body.is_null());
  const Json counts = *Json::parse(component.counts());
  EXPECT_EQ(counts.at({"operations", "CREATE org.apache.qpid.dispatch.router.config.address"})
                ->as_integer(),
            2);
  EXPECT_EQ(counts.at({"holds", "org.apache.qpid.dispatch.router.config.address"})->as_integer(),
            1);
  EXPECT_EQ(counts.find("connections")->as_integer(), 2);
  component.restart_empty();
  ASSERT_TRUE(run(component, {&one, &two}, [&] { return one.closed && two.closed; }));
  EXPECT_EQ(Json::parse(component.counts())
                ->at({"holds", "org.apache.qpid.dispatch.router.config.address"})
                ->as_integer(),
            0);
}

TEST(FakeComponents, S6_ARouterDropsAnswersWithoutCredit) {
  FakeComponent component({});
  const auto port = component.listen();
  ASSERT_TRUE(port.has_value());
  Client client(*port, "$management", 1);
  ASSERT_TRUE(run(component, {&client}, [&] { return client.ready(); }));
  client.send("1", kCreate, Json::object());
  client.send("2", kCreate, Json::object());
  ASSERT_TRUE(run(component, {&client}, [&] {
    return Json::parse(component.counts())->find("dropped")->as_integer() == 1;
  }));
  ASSERT_TRUE(run(component, {&client}, [&] { return client.answers.size() == 1; }));
  EXPECT_EQ(client.answers[0].id, "1");
}

TEST(FakeComponents, S81_ABrokersAnswersAreInOrderAndNotSettled) {
  FakeComponent::Params params;
  params.kind = ComponentKind::kBroker;
  params.parallel = true;
  FakeComponent component(params);
  const auto port = component.listen();
  ASSERT_TRUE(port.has_value());
  Client client(*port, "activemq.management", 100);
  ASSERT_TRUE(run(component, {&client}, [&] { return client.ready(); }));
  for (int i = 0; i < 50; ++i) {
    client.send("r" + std::to_string(i),
                R"({"_AMQ_ResourceName":"broker","_AMQ_OperationName":"createAddress"})",
                Json::array({"a" + std::to_string(i), "ANYCAST"}).dump());
  }
  ASSERT_TRUE(run(component, {&client}, [&] { return client.answers.size() == 50; }));
  for (int i = 0; i < 50; ++i) {
    const Client::Answer& one = client.answers[static_cast<std::size_t>(i)];
    EXPECT_EQ(one.id, "r" + std::to_string(i));
    EXPECT_FALSE(one.settled);
    EXPECT_EQ(one.body.as_string(), R"(["Address [name=a)" + std::to_string(i) +
                                        R"(, routingTypes={ANYCAST}, autoCreated=false]"])");
  }
  EXPECT_EQ(Json::parse(component.counts())->at({"operations", "createAddress"})->as_integer(), 50);
}

}  // namespace
}  // namespace kintsugi::workers
