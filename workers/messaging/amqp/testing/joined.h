#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workers/messaging/amqp/management_session.h"
#include "workers/messaging/amqp/testing/management_peer.h"

/// Only for tests.
namespace kintsugi::workers::amqp_testing {

inline ManagementSession::Params session_params(ComponentKind kind = ComponentKind::kRouter) {
  ManagementSession::Params made;
  made.kind = kind;
  made.container = "kintsugi-1";
  made.hostname = "router.example";
  return made;
}

inline ManagementRequest read_request(std::string name = "x") {
  return {{{"operation", std::string("READ")}, {"name", std::move(name)}}, Attributes{}};
}

/// A session and its peer, and the bytes between them in pieces of one size.
struct Joined {
  explicit Joined(ManagementSession::Params with = session_params(),
                  ManagementPeer::Options options = ManagementPeer::Options(),
                  std::size_t piece = 1U << 20U)
      : session(std::move(with), now), peer(std::move(options)), piece_size(piece) {}

  /// Until nothing more is said.
  void run() {
    bool said = true;
    while (said) {
      said = false;
      for (std::string_view out = session.output(); !out.empty(); out = session.output()) {
        const std::string part(out.substr(0, piece_size));
        session.consume(part.size());
        peer.receive(part);
        said = true;
      }
      const std::string back = peer.output();
      for (std::size_t at = 0; at < back.size(); at += piece_size) {
        session.receive(std::string_view(back).substr(at, piece_size), now);
        said = true;
      }
    }
  }
  std::vector<ManagementSession::Answered> answers() {
    std::vector<ManagementSession::Answered> all;
    while (auto each = session.take()) {
      all.push_back(std::move(*each));
    }
    return all;
  }
  void pass(Duration time) {
    now += time;
    while (session.next_timer() && *session.next_timer() <= now) {
      session.on_timer(now);
    }
  }

  TimePoint now{seconds(1'000)};
  ManagementSession session;
  ManagementPeer peer;
  std::size_t piece_size;
};

}  // namespace kintsugi::workers::amqp_testing
