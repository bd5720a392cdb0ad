#pragma once

// Only for tests of this folder.

#include <memory>

#include "proxy/testing/rig.h"

namespace kintsugi::proxy::testing {

/// Puts a handler before the one of a rig, whose client talks to it from then on. A member of who
/// has the two, after them.
class GateFront {
 public:
  GateFront(Rig& rig, RoutedHandler& gate) : rig_(rig), entrance_(rig.view, gate) {
    net::ListenerParams listening;
    listening.identify = [&rig](const http::PeerInfo&) { return rig.identity; };
    listener_ = Rig::must(net::Listener::open(rig.loop, listening, entrance_));
    connect();
  }
  ~GateFront() { listener_->close(); }
  GateFront(const GateFront&) = delete;
  GateFront& operator=(const GateFront&) = delete;
  /// Requests have another connection, with the identity that the rig has when it begins.
  void connect() {
    net::UpstreamParams to_gate;
    to_gate.url = net::Url{"http", "127.0.0.1", listener_->port(), ""};
    to_gate.prior_knowledge = true;
    rig_.client = net::Upstream::make(rig_.loop, to_gate);
  }

 private:
  Rig& rig_;
  Entrance entrance_;
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace kintsugi::proxy::testing
