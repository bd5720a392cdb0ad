#pragma once

// Only for tests of this folder: one more data loop of the process that a Rig is, on a thread of
// its own.

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "proxy/testing/rig.h"

namespace kintsugi::proxy::testing {

/// Serves what the rig's shards have. Dies before the rig. Threads: the rig's, but in_loop().
class SecondLoop {
 public:
  using Changes = std::function<void(ProxyHandlerParams&)>;

  /// @param changed  makes other parameters of the handler.
  SecondLoop(Rig& rig, const std::function<void(net::UpstreamParams&)>& change,
             const Changes& changed)
      : rig_(rig),
        view_(rig.publisher.attach(loop)),
        pool_(
            loop, view_,
            [change](const std::string&, const std::string& url) -> Expected<net::UpstreamParams> {
              net::UpstreamParams params;
              params.url = *net::Url::parse(url);
              params.prior_knowledge = true;
              params.restart_wait = milliseconds(50);
              change(params);
              return params;
            }),
        overlay_(loop, local_) {
    ProxyHandlerParams params{
        .loop = loop,
        .view = view_,
        .pool = pool_,
        .local = local_,
        .overlay = overlay_,
        .authorizer = permissions_,
        .identity_headers = {},
        .limits = {.body_bytes = 1U << 20, .replay_bytes = 64U << 10, .held = {}},
        .instance = "test",
        .partition = {},
        .ready = [] { return true; },
        .metrics = [](const auto& done) { done("kintsugi_of_the_rig 1\n"); }};
    changed(params);
    handler = std::make_unique<ProxyHandler>(std::move(params));
    handler->set_slots(rig.slots, {{1, Secret::copy_of("secret")}});
    net::ListenerParams listening;
    listening.identify = [who = rig.identity](const http::PeerInfo&) { return who; };
    entrance_ = std::make_unique<Entrance>(view_, *handler);
    front_ = Rig::must(net::Listener::open(loop, listening, *entrance_));
    net::UpstreamParams to_front;
    to_front.url = net::Url{"http", "127.0.0.1", front_->port(), ""};
    to_front.prior_knowledge = true;
    client_ = net::Upstream::make(rig.loop, to_front);
    thread_ = std::thread([this] { loop.run(); });
  }
  ~SecondLoop() {
    client_.reset();
    loop.stop();
    thread_.join();
    front_->close();
  }
  SecondLoop(const SecondLoop&) = delete;
  SecondLoop& operator=(const SecondLoop&) = delete;

  void send(Answer& answer, const http::RequestHead& head) {
    answer.stream = &client_->open(net::UpstreamClass::kRead, head, answer);
  }
  /// What the rig's loop was given last.
  void take_slots() {
    loop.post([this, slots = rig_.slots] {
      handler->set_slots(slots, {{1, Secret::copy_of("secret")}});
    });
  }
  /// Waits for what `look` finds there.
  template <class Look>
  auto in_loop(const Look& look) {
    std::promise<decltype(look())> found;
    loop.post([&] { found.set_value(look()); });
    return found.get_future().get();
  }

  net::Loop loop{"second"};
  std::unique_ptr<ProxyHandler> handler;  ///< its loop's

 private:
  Rig& rig_;
  std::shared_ptr<topology::SnapshotView> view_;
  topology::ShardPool pool_;
  LocalKinds local_;
  Permissions permissions_;
  Overlay overlay_;
  std::unique_ptr<Entrance> entrance_;
  std::unique_ptr<net::Listener> front_;
  std::unique_ptr<net::Upstream> client_;
  std::thread thread_;
};

}  // namespace kintsugi::proxy::testing
