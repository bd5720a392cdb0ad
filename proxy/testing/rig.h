#pragma once

// Only for tests of this folder: a shard that does what the test says, the proxy's handler in front
// of it, and a client; everything on one loop.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "net/listener.h"
#include "net/upstream.h"
#include "proxy/handler.h"
#include "proxy/overlay/overlay.h"
#include "serving/identity.h"
#include "topology/index.h"
#include "topology/testing/reports.h"

namespace kintsugi::proxy::testing {

/// What the shard got. `stream` is null once it ended.
struct Exchange {
  http::RequestHead head;
  std::string body;
  bool complete = false;
  http::ResponseStream* stream = nullptr;
};

/// Keeps every request; `answer` may react to its head, `complete` to its end.
class FakeShard final : public http::Handler {
 public:
  std::function<void(Exchange&)> answer, complete;
  std::list<Exchange> exchanges;

  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override {
    Exchange& exchange = exchanges.emplace_back();
    exchange.complete = head.end_stream;
    exchange.head = std::move(head);
    exchange.stream = &stream;
    if (answer) {
      answer(exchange);
    }
    if (exchange.complete && complete && exchange.stream != nullptr) {
      complete(exchange);
    }
    return std::make_unique<Receiver>(*this, exchange);
  }

  static void reply(Exchange& exchange, int status, std::string_view body,
                    std::string_view type = "application/json") {
    http::HeaderList headers;
    headers.add("content-type", type);
    exchange.stream->send_head(status, headers, false);
    exchange.stream->send_data(body, true);
  }

 private:
  class Receiver final : public http::RequestHandler {
   public:
    Receiver(FakeShard& shard, Exchange& exchange) : shard_(shard), exchange_(exchange) {}
    void on_data(std::string_view bytes, bool end) noexcept override {
      exchange_.body.append(bytes);
      if (exchange_.stream != nullptr) {
        exchange_.stream->consume(bytes.size());
      }
      if (end && !std::exchange(exchange_.complete, true) && shard_.complete) {
        shard_.complete(exchange_);
      }
    }
    void on_close(Errc) noexcept override { exchange_.stream = nullptr; }

   private:
    FakeShard& shard_;
    Exchange& exchange_;
  };
};

/// One request of the test's client. Gives credit back at once, unless it is told not to.
struct Answer final : http::ResponseHandler {
  Answer() = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() override {
    if (stream != nullptr) {
      stream->detach();
    }
  }
  void on_head(http::ResponseHead head, bool end) noexcept override {
    status = head.status;
    headers = std::move(head.headers);
    ended = end;
  }
  void on_data(std::string_view bytes, bool end) noexcept override {
    body.append(bytes);
    ended = ended || end;
    if (stream != nullptr && takes && !bytes.empty()) {
      stream->consume(bytes.size());
    }
  }
  void on_close(Errc cause) noexcept override {
    closed = true;
    result = cause;
    stream = nullptr;
  }
  [[nodiscard]] std::string header(std::string_view name) const {
    return std::string(headers.get(name));
  }
  http::RequestStream* stream = nullptr;
  int status = 0;
  http::HeaderList headers;
  std::string body;
  bool ended = false, closed = false;
  bool takes = true;  ///< else it gives no credit back
  Errc result = Errc::kOk;
};

/// Answers what the proxy would serve itself.
class LocalKinds final : public http::Handler {
 public:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override {
    last = std::move(head);
    http::HeaderList headers;
    if (!body.empty()) {
      headers.add("content-type", "application/json");
      headers.add("etag", "\"own\"");
    }
    stream.send_head(status, headers, body.empty());
    if (!body.empty()) {
      stream.send_data(body, true);
    }
    return std::make_unique<Drop>(stream);
  }
  http::RequestHead last;
  int status = 200;
  std::string body;

 private:
  struct Drop final : http::RequestHandler {
    explicit Drop(http::ResponseStream& s) : stream(s) {}
    void on_data(std::string_view bytes, bool /*end*/) noexcept override {
      stream.consume(bytes.size());
    }
    void on_close(Errc /*cause*/) noexcept override {}
    http::ResponseStream& stream;
  };
};

class Permissions final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes& attributes, Done done) override {
    asked = attributes;
    auth::Decision decision;
    decision.allowed = allow;
    done(decision);
  }
  bool allow = false;
  auth::Attributes asked;
};

/// Shard `alpha` owns the logical clusters `root` and `c1` (= root:one); shard `lost` was never
/// reached.
class Rig {
 public:
  /// @param changed  makes other parameters of the handler.
  explicit Rig(std::function<void(net::UpstreamParams&)> change = nullptr,
               const std::function<void(ProxyHandlerParams&)>& changed = nullptr) {
    start_shard();
    const topology::ShardId alpha =
        index.upsert_shard(spec("alpha", "http://127.0.0.1:" + std::to_string(shard_port))).id;
    index.set_synced(alpha, topology::Resource::kWorkspaces, true);
    index.set_synced(alpha, topology::Resource::kLogicalClusters, true);
    index.upsert_cluster(alpha, {"root", "root", {}, false});
    index.upsert_cluster(alpha, topology::owned("c1", "root", "one", "root:one"));
    index.upsert_cluster(alpha, topology::owned("c0", "root", "closed", "root:closed"));
    index.upsert_workspace(alpha, topology::edge("root", "one", "c1"));
    index.upsert_workspace(alpha, topology::edge("root", "closed", "c0", "Unavailable"));
    index.set_shards_listed();
    publisher.publish(index.freeze());
    view = publisher.attach(loop);
    pool = std::make_unique<topology::ShardPool>(
        loop, view,
        [change](const std::string&, const std::string& url) -> Expected<net::UpstreamParams> {
          net::UpstreamParams params;
          params.url = *net::Url::parse(url);
          params.prior_knowledge = true;
          params.restart_wait = milliseconds(50);
          if (change) {
            change(params);
          }
          return params;
        });
    overlay = std::make_unique<Overlay>(loop, local);
    ProxyHandlerParams params{
        .loop = loop,
        .view = view,
        .pool = *pool,
        .local = local,
        .overlay = *overlay,
        .authorizer = permissions,
        .identity_headers = {},
        .limits = {.body_bytes = 1U << 20, .replay_bytes = 64U << 10, .held = {}},
        .instance = "test",
        .partition =
            [this](std::string_view cluster, std::string_view name) {
              const auto found = partitions.find(std::string(cluster) + "/" + std::string(name));
              return found != partitions.end() ? std::optional(found->second) : std::nullopt;
            },
        .ready = [this] { return ready; },
        .metrics = [](const auto& done) { done("kintsugi_of_the_rig 1\n"); }};
    if (changed) {
      changed(params);
    }
    handler = std::make_unique<ProxyHandler>(std::move(params));
    give_slots();
    net::ListenerParams listening;
    listening.identify = [this](const http::PeerInfo&) { return identity; };
    entrance = std::make_unique<Entrance>(view, *handler);
    front = must(net::Listener::open(loop, listening, *entrance));
    net::UpstreamParams to_front;
    to_front.url = net::Url{"http", "127.0.0.1", front->port(), ""};
    to_front.prior_knowledge = true;
    client = net::Upstream::make(loop, to_front);
  }
  ~Rig() { front->close(); }

  /// Every shard that is known has its slot, in their order.
  void give_slots(const aggregation::SlotHistoryPtr& before =
                      std::make_shared<const aggregation::SlotHistory>()) {
    aggregation::SlotChange change;
    for (const auto& known : index.now().shards()) {
      change.present.push_back(known->spec.name);
    }
    slots = std::make_shared<const aggregation::SlotHistory>(*before->changed(change, 1));
    handler->set_slots(slots, {{1, Secret::copy_of("secret")}});
  }
  /// One more shard, of what kind the caller says; it owns nothing. @param before  its slot is new
  /// in the generation after this
  void add_shard(topology::ShardSpec spec, const aggregation::SlotHistoryPtr& before =
                                               std::make_shared<const aggregation::SlotHistory>()) {
    index.upsert_shard(std::move(spec));
    publisher.publish(index.freeze());
    give_slots(before);
  }

  void start_shard() {
    net::ListenerParams params;
    params.limits.max_streams = shard_streams;
    params.port = shard_port;
    shard_listener = must(net::Listener::open(loop, params, shard));
    shard_port = shard_listener->port();
  }
  /// The same shard under another name of its address.
  void move_shard() {
    index.upsert_shard(spec("alpha", "http://localhost:" + std::to_string(shard_port)));
    publisher.publish(index.freeze());
  }
  /// Connections end, and new ones are refused.
  void stop_shard() {
    shard_listener->close();
    shard_listener.reset();
  }

  /// Connections made from now on are alice's, of group `team` or the one that is given.
  void log_in(const std::string& group = "team") {
    auto who = std::make_shared<serving::ConnectionIdentity>();
    who->valid = who->from_client_ca = true;
    auth::UserInfo user;
    user.name = "alice";
    user.groups = {group, "system:authenticated"};
    EXPECT_TRUE(auth::stamp_identity(who->stamp, user, {}));
    who->user = std::move(user);
    identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(who));
  }

  static http::RequestHead get(std::string target) { return request("GET", std::move(target)); }
  static http::RequestHead request(std::string method, std::string target, bool end = true) {
    http::RequestHead head;
    head.method = std::move(method);
    head.target = std::move(target);
    head.end_stream = end;
    return head;
  }
  void send(Answer& answer, const http::RequestHead& head) {
    answer.stream = &client->open(net::UpstreamClass::kRead, head, answer);
  }
  void send(Answer& answer, const http::RequestHead& head, std::string_view body) {
    send(answer, head);
    answer.stream->send_data(body, true);
  }
  /// Sends and waits for the end.
  void ask(Answer& answer, const http::RequestHead& head) {
    send(answer, head);
    EXPECT_TRUE(until([&] { return answer.closed; })) << head.target;
  }

  bool until(const std::function<bool()>& condition) {
    bool met = false;
    net::Timer pace(loop), limit(loop);
    std::function<void()> check = [&] {
      met = condition();
      if (met) {
        loop.stop();
      } else {
        pace.start(milliseconds(1), check);
      }
    };
    pace.start(milliseconds(1), check);
    limit.start(seconds(30), [this] { loop.stop(); });
    loop.run();
    return met;
  }

  template <class T>
  static T must(Expected<T> expected) {
    if (!expected) {
      std::abort();
    }
    return std::move(*expected);
  }

  net::Loop loop{"test"};
  FakeShard shard;
  LocalKinds local;
  Permissions permissions;
  std::map<std::string, krm::Json> partitions;  ///< by <cluster>/<name>
  std::uint16_t shard_port = 0;
  std::uint32_t shard_streams = 250;
  bool ready = true;
  std::shared_ptr<const void> identity;
  topology::Index index;
  topology::SnapshotPublisher publisher;
  std::shared_ptr<topology::SnapshotView> view;
  std::unique_ptr<net::Listener> shard_listener;
  std::unique_ptr<topology::ShardPool> pool;
  std::unique_ptr<Overlay> overlay;
  std::unique_ptr<ProxyHandler> handler;
  std::unique_ptr<Entrance> entrance;
  aggregation::SlotHistoryPtr slots;
  std::unique_ptr<net::Listener> front;
  std::unique_ptr<net::Upstream> client;

 private:
  static topology::ShardSpec spec(const std::string& name, const std::string& url) {
    topology::ShardSpec result;
    result.name = name;
    result.base_url = url;
    return result;
  }
};

}  // namespace kintsugi::proxy::testing
