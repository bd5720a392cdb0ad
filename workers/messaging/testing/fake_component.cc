// The AMQP server of a fake component: one thread, poll(2), Proton's connection driver.
#include "workers/messaging/testing/fake_component.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <proton/condition.h>
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

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>
#include <queue>
#include <unordered_map>
#include <vector>

#include "workers/messaging/testing/fake_tables.h"
#include "workers/messaging/testing/proton_json.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

constexpr int kCredit = 1000;
constexpr std::size_t kMostMessage = 8U << 20U;

TimePoint now_of_clock() { return std::chrono::steady_clock::now(); }

struct MessageFree {
  void operator()(pn_message_t* message) const { pn_message_free(message); }
};
using Message = std::unique_ptr<pn_message_t, MessageFree>;

struct Connection {
  int fd = -1;
  pn_connection_driver_t driver{};
  std::string incoming;  ///< of a message that is not whole yet
};

/// An answer that waits for its time.
struct Reply {
  TimePoint due{};
  std::uint64_t order = 0;
  std::string to;
  Json correlation;  ///< string or number
  FakeAnswer answer;
};
struct Later {
  bool operator()(const std::unique_ptr<Reply>& a, const std::unique_ptr<Reply>& b) const {
    return a->due != b->due ? a->due > b->due : a->order > b->order;
  }
};

}  // namespace

class FakeComponent::Server {
 public:
  explicit Server(Params params)
      : params_(std::move(params)),
        router_(params_.hazards, params_.container.empty() ? "R1" : params_.container),
        broker_(params_.hazards) {
    if (params_.container.empty()) {
      params_.container = is_router() ? "R1" : "b0";
    }
  }
  ~Server() {
    end_all();
    if (listener_ >= 0) {
      ::close(listener_);
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Expected<std::uint16_t> listen();
  void run_once(Duration most);
  void restart_empty() {
    end_all();
    router_.restart(now_of_clock());
    broker_.restart();
  }
  std::string counts() const;

 private:
  [[nodiscard]] bool is_router() const { return params_.kind == ComponentKind::kRouter; }
  void accept_all();
  /// False when the connection has ended.
  bool serve(Connection& connection, short events);
  void flush(Connection& connection);
  void end(Connection& connection);
  void end_all();
  void on_event(Connection& connection, pn_event_t* event);
  void open_link(Connection& connection, pn_link_t* link);
  void take(Connection& connection, pn_delivery_t* delivery);
  void on_request(std::string_view bytes);
  void send_due(TimePoint now);
  void send(Reply& reply);

  Params params_;
  FakeRouter router_;
  FakeBroker broker_;
  int listener_ = -1;
  std::list<Connection> connections_;
  struct ReplyLink {
    Connection* connection = nullptr;
    pn_link_t* link = nullptr;
  };
  std::unordered_map<std::string, ReplyLink> links_;
  std::priority_queue<std::unique_ptr<Reply>, std::vector<std::unique_ptr<Reply>>, Later> replies_;
  TimePoint free_at_{}, agent_free_at_{};
  std::uint64_t last_link_ = 0, last_tag_ = 0, last_order_ = 0;
  std::uint64_t received_ = 0, answered_ = 0, dropped_ = 0, unanswered_ = 0;
  std::map<std::string, std::uint64_t> operations_;
  Message message_{pn_message()};
  std::vector<char> buffer_ = std::vector<char>(1U << 16U);
};

Expected<std::uint16_t> FakeComponent::Server::listen() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(params_.port);
  socklen_t size = sizeof(address);
  const int on = 1;
  if (listener_ < 0 || ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return fail(Errc::kIo, "no listener");
  }
  return ntohs(address.sin_port);
}

void FakeComponent::Server::accept_all() {
  for (int fd = 0;
       (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Connection& one = connections_.emplace_back();
    one.fd = fd;
    if (pn_connection_driver_init(&one.driver, nullptr, nullptr) != 0) {
      ::close(fd);
      connections_.pop_back();
      return;
    }
    pn_transport_set_server(one.driver.transport);
    pn_transport_require_auth(one.driver.transport, false);
    pn_sasl_allowed_mechs(pn_sasl(one.driver.transport), "ANONYMOUS");
    pn_transport_set_idle_timeout(one.driver.transport, 16'000);
    router_.set_connections(static_cast<std::int64_t>(connections_.size()));
  }
}

void FakeComponent::Server::end(Connection& connection) {
  for (auto at = links_.begin(); at != links_.end();) {
    at = at->second.connection == &connection ? links_.erase(at) : std::next(at);
  }
  pn_connection_driver_destroy(&connection.driver);
  ::close(connection.fd);
}

void FakeComponent::Server::end_all() {
  for (Connection& each : connections_) {
    end(each);
  }
  connections_.clear();
  replies_ = {};
  router_.set_connections(0);
}

void FakeComponent::Server::flush(Connection& connection) {
  for (;;) {
    while (pn_event_t* event = pn_connection_driver_next_event(&connection.driver)) {
      on_event(connection, event);
    }
    const pn_bytes_t out = pn_connection_driver_write_buffer(&connection.driver);
    if (out.size == 0) {
      return;
    }
    const ssize_t written = ::send(connection.fd, out.start, out.size, MSG_NOSIGNAL);
    if (written > 0) {
      pn_connection_driver_write_done(&connection.driver, static_cast<std::size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      pn_connection_driver_write_close(&connection.driver);
      pn_connection_driver_read_close(&connection.driver);
    }
  }
}

bool FakeComponent::Server::serve(Connection& connection, short events) {
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
    for (;;) {
      const pn_rwbytes_t in = pn_connection_driver_read_buffer(&connection.driver);
      if (in.size == 0) {
        break;
      }
      const ssize_t got = ::recv(connection.fd, in.start, in.size, 0);
      if (got > 0) {
        pn_connection_driver_read_done(&connection.driver, static_cast<std::size_t>(got));
        flush(connection);
        if (static_cast<std::size_t>(got) < in.size) {
          break;
        }
      } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        break;
      } else {
        pn_connection_driver_read_close(&connection.driver);
        break;
      }
    }
  }
  flush(connection);
  return !pn_connection_driver_finished(&connection.driver);
}

void FakeComponent::Server::on_event(Connection& connection, pn_event_t* event) {
  switch (pn_event_type(event)) {
    case PN_CONNECTION_REMOTE_OPEN: {
      pn_connection_t* one = pn_event_connection(event);
      pn_connection_set_container(one, params_.container.c_str());
      pn_data_t* properties = pn_connection_properties(one);
      put_json(properties, Json::object({{"product", is_router() ? "qpid-dispatch-router"
                                                                 : "apache-activemq-artemis"},
                                         {"version", is_router() ? "1.19.0" : "2.44.0"}}));
      pn_connection_open(one);
      break;
    }
    case PN_SESSION_REMOTE_OPEN:
      pn_session_open(pn_event_session(event));
      break;
    case PN_LINK_REMOTE_OPEN:
      open_link(connection, pn_event_link(event));
      break;
    case PN_DELIVERY:
      take(connection, pn_event_delivery(event));
      break;
    case PN_LINK_REMOTE_CLOSE:
    case PN_LINK_REMOTE_DETACH: {
      pn_link_t* link = pn_event_link(event);
      if (pn_link_is_sender(link)) {
        links_.erase(pn_terminus_get_address(pn_link_source(link)));
      }
      pn_link_close(link);
      break;
    }
    case PN_SESSION_REMOTE_CLOSE:
      pn_session_close(pn_event_session(event));
      break;
    case PN_CONNECTION_REMOTE_CLOSE:
      pn_connection_close(pn_event_connection(event));
      break;
    default:
      break;
  }
}

void FakeComponent::Server::open_link(Connection& connection, pn_link_t* link) {
  if (pn_link_is_receiver(link)) {
    pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
    pn_link_open(link);
    pn_link_flow(link, kCredit);
    return;
  }
  pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link));
  const std::string number = std::to_string(++last_link_);
  const std::string address =
      is_router() ? "amqp:/_topo/0/" + params_.container + "/temp." + number
                  : "6f1b0d4e-0000-4000-8000-" +
                        std::string(12 - std::min<std::size_t>(12, number.size()), '0') + number;
  pn_terminus_set_address(pn_link_source(link), address.c_str());
  if (is_router()) {
    pn_link_set_snd_settle_mode(link, PN_SND_SETTLED);
  }
  pn_link_open(link);
  links_[address] = {&connection, link};
}

void FakeComponent::Server::take(Connection& connection, pn_delivery_t* delivery) {
  pn_link_t* link = pn_delivery_link(delivery);
  if (pn_link_is_sender(link)) {
    if (pn_delivery_updated(delivery)) {
      pn_delivery_settle(delivery);
    }
    return;
  }
  if (!pn_delivery_readable(delivery) || pn_link_current(link) != delivery) {
    return;
  }
  const std::size_t pending = pn_delivery_pending(delivery);
  const std::size_t before = connection.incoming.size();
  connection.incoming.resize(before + pending);
  const ssize_t got = pn_link_recv(link, connection.incoming.data() + before, pending);
  connection.incoming.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
  if (pn_delivery_partial(delivery) && connection.incoming.size() <= kMostMessage) {
    return;
  }
  pn_delivery_update(delivery, PN_ACCEPTED);
  pn_link_advance(link);
  pn_delivery_settle(delivery);
  on_request(connection.incoming);
  connection.incoming.clear();
  if (pn_link_credit(link) < kCredit / 2) {
    pn_link_flow(link, kCredit - pn_link_credit(link));
  }
}

void FakeComponent::Server::on_request(std::string_view bytes) {
  pn_message_clear(message_.get());
  if (pn_message_decode(message_.get(), bytes.data(), bytes.size()) != 0) {
    ++unanswered_;
    return;
  }
  const auto value_of = [](pn_data_t* data) {
    pn_data_rewind(data);
    return pn_data_next(data) ? json_of(data) : Json();
  };
  const Json properties = value_of(pn_message_properties(message_.get()));
  const Json body = value_of(pn_message_body(message_.get()));
  const char* reply_to = pn_message_get_reply_to(message_.get());
  ++received_;
  const TimePoint now = now_of_clock();
  std::optional<FakeAnswer> answer;
  std::string what;
  if (is_router()) {
    const std::string_view type = properties.text({"type"});
    what = std::string(properties.text({"operation"})) + " " +
           std::string(type.empty() ? properties.text({"entityType"}) : type);
    answer = router_.answer(properties, body, now);
  } else {
    what = properties.text({"_AMQ_OperationName"});
    if (what.empty()) {
      what = "attribute " + std::string(properties.text({"_AMQ_Attribute"}));
    }
    answer = broker_.answer(properties, body);
  }
  if (operations_.size() < 1000 || operations_.count(what) != 0) {
    ++operations_[what];
  }
  if (!answer || reply_to == nullptr) {
    ++unanswered_;
    return;
  }
  auto reply = std::make_unique<Reply>();
  reply->order = ++last_order_;
  reply->to = reply_to;
  const pn_msgid_t correlation = pn_message_get_correlation_id(message_.get());
  if (correlation.type == PN_STRING) {
    reply->correlation =
        std::string_view(correlation.u.as_bytes.start, correlation.u.as_bytes.size);
  } else if (correlation.type == PN_ULONG) {
    reply->correlation = std::uint64_t{correlation.u.as_ulong};
  }
  if (params_.hazards && answer->serial && reply->correlation.is_number()) {
    reply->correlation = nullptr;  // MH-6
  }
  const Duration cost = params_.latency + answer->cost;
  if (answer->serial && params_.parallel) {
    agent_free_at_ = std::max(agent_free_at_, now) + cost;
    reply->due = agent_free_at_;
  } else if (params_.parallel) {
    reply->due = now + cost;
  } else {
    free_at_ = std::max(free_at_, now) + cost;
    reply->due = free_at_;
  }
  reply->answer = std::move(*answer);
  replies_.push(std::move(reply));
}

void FakeComponent::Server::send(Reply& reply) {
  const auto at = links_.find(reply.to);
  if (at == links_.end()) {
    ++dropped_;
    return;
  }
  pn_link_t* link = at->second.link;
  if (is_router() && pn_link_credit(link) <= 0) {
    ++dropped_;
    return;
  }
  pn_message_t* message = message_.get();
  pn_message_clear(message);
  pn_message_set_address(message, reply.to.c_str());
  pn_msgid_t correlation{};
  if (reply.correlation.is_integer()) {
    correlation.type = PN_ULONG;
    correlation.u.as_ulong = static_cast<std::uint64_t>(reply.correlation.as_integer());
  } else if (reply.correlation.is_string()) {
    const std::string_view text = reply.correlation.as_string();
    correlation.type = PN_STRING;
    correlation.u.as_bytes = pn_bytes(text.size(), text.data());
  } else {
    correlation.type = PN_NULL;
  }
  (void)pn_message_set_correlation_id(message, correlation);
  put_json(pn_message_properties(message), reply.answer.properties);
  put_json(pn_message_body(message), reply.answer.body);
  std::size_t size = buffer_.size();
  int result = 0;
  while ((result = pn_message_encode(message, buffer_.data(), &size)) == PN_OVERFLOW &&
         buffer_.size() < (64U << 20U)) {
    buffer_.resize(buffer_.size() * 2);
    size = buffer_.size();
  }
  if (result != 0) {
    ++dropped_;
    return;
  }
  const std::uint64_t tag = ++last_tag_;
  pn_delivery_t* delivery =
      pn_delivery(link, pn_dtag(reinterpret_cast<const char*>(&tag), sizeof(tag)));
  (void)pn_link_send(link, buffer_.data(), size);
  pn_link_advance(link);
  if (is_router()) {
    pn_delivery_settle(delivery);
  }
  ++answered_;
}

void FakeComponent::Server::send_due(TimePoint now) {
  while (!replies_.empty() && replies_.top()->due <= now) {
    send(*replies_.top());
    replies_.pop();
  }
}

void FakeComponent::Server::run_once(Duration most) {
  const TimePoint begin = now_of_clock();
  TimePoint until = begin + most;
  if (!replies_.empty()) {
    until = std::min(until, replies_.top()->due);
  }
  std::vector<pollfd> polled;
  polled.reserve(1 + connections_.size());
  polled.push_back({listener_, POLLIN, 0});
  for (Connection& each : connections_) {
    const bool writes = pn_connection_driver_write_buffer(&each.driver).size > 0;
    polled.push_back({each.fd, static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
  }
  const auto wait =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(Duration{}, until - begin));
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(wait.count() / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(wait.count() % 1'000'000'000);
  if (::ppoll(polled.data(), polled.size(), &timeout, nullptr) < 0) {
    return;
  }
  std::size_t i = 1;
  for (auto at = connections_.begin(); at != connections_.end(); ++i) {
    if (polled[i].revents == 0 || serve(*at, polled[i].revents)) {
      ++at;
      continue;
    }
    end(*at);
    at = connections_.erase(at);
    router_.set_connections(static_cast<std::int64_t>(connections_.size()));
  }
  send_due(now_of_clock());
  const auto now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now_of_clock().time_since_epoch())
          .count();
  for (Connection& each : connections_) {
    (void)pn_transport_tick(each.driver.transport, now_ms);
    flush(each);
  }
  if ((polled[0].revents & POLLIN) != 0) {
    accept_all();
  }
}

std::string FakeComponent::Server::counts() const {
  Json operations = Json::object();
  for (const auto& [name, count] : operations_) {
    operations[name] = count;
  }
  Json holds = Json::object();
  if (is_router()) {
    for (const EntityKind kind :
         {EntityKind::kAddress, EntityKind::kAutoLink, EntityKind::kLinkRoute,
          EntityKind::kConnector, EntityKind::kListener, EntityKind::kSslProfile,
          EntityKind::kVhost}) {
      holds[router_type(kind)] = std::uint64_t{router_.size(router_type(kind))};
    }
  } else {
    holds["addresses"] = std::uint64_t{broker_.addresses()};
    holds["queues"] = std::uint64_t{broker_.queues()};
    holds["settings"] = std::uint64_t{broker_.settings()};
  }
  return Json::object({{"kind", is_router() ? "router" : "broker"},
                       {"connections", std::uint64_t{connections_.size()}},
                       {"received", received_},
                       {"answered", answered_},
                       {"dropped", dropped_},
                       {"unanswered", unanswered_},
                       {"waiting", std::uint64_t{replies_.size()}},
                       {"hangs", router_.hangs()},
                       {"operations", std::move(operations)},
                       {"holds", std::move(holds)}})
      .dump();
}

FakeComponent::FakeComponent(Params params)
    : server_(std::make_unique<Server>(std::move(params))) {}
FakeComponent::~FakeComponent() = default;
Expected<std::uint16_t> FakeComponent::listen() { return server_->listen(); }
void FakeComponent::run_once(Duration most) { server_->run_once(most); }
void FakeComponent::restart_empty() { server_->restart_empty(); }
std::string FakeComponent::counts() const { return server_->counts(); }

}  // namespace kintsugi::workers
