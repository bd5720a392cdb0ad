#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "net/loop.h"
#include "workers/messaging/amqp/testing/management_peer.h"

/// Only for tests.
namespace kintsugi::workers::amqp_testing {

/// Serves one connection after the other, between two turns of the loop: whenever it is polled.
class Node {
 public:
  Node() {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    EXPECT_EQ(::listen(fd_, 16), 0);
  }
  ~Node() {
    hang_up();
    ::close(fd_);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void poll() {
    if (peer_fd_ < 0) {
      peer_fd_ = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (peer_fd_ < 0) {
        return;
      }
      ++connections;
      peer = std::make_unique<ManagementPeer>(options);
      if (on_connect) {
        on_connect();
      }
      if (answers) {
        peer->on_request = [this](const ManagementPeer::Request& request) {
          peer->answer(request.correlation, ManagementPeer::status(200),
                       ManagementPeer::text(request.correlation));
        };
      }
    }
    char bytes[65'536];
    ssize_t count = 0;
    while ((count = ::recv(peer_fd_, bytes, sizeof bytes, 0)) > 0) {
      peer->receive({bytes, static_cast<std::size_t>(count)});
    }
    const std::string out = peer->output();
    for (std::size_t at = 0; at < out.size();) {
      const ssize_t sent = ::send(peer_fd_, out.data() + at, out.size() - at, MSG_NOSIGNAL);
      if (sent > 0) {
        at += static_cast<std::size_t>(sent);
      } else if (errno != EAGAIN) {
        break;
      }
    }
    if (count == 0) {
      hang_up();
    }
  }
  void hang_up() {
    if (peer_fd_ >= 0) {
      ::close(std::exchange(peer_fd_, -1));
    }
  }

  ManagementPeer::Options options;
  bool answers = true;               ///< every request, with its correlation
  std::function<void()> on_connect;  ///< `peer` is there
  int connections = 0;
  std::unique_ptr<ManagementPeer> peer;
  std::uint16_t port = 0;

 private:
  int fd_ = -1, peer_fd_ = -1;
};

/// Runs the loop, and the node between its turns, until something is true; 20 s at most.
inline bool run_until(net::Loop& loop, Node& node, const std::function<bool()>& condition) {
  bool met = false;
  std::function<void()> check;
  net::Timer pace(loop), limit(loop);
  check = [&] {
    node.poll();
    met = condition();
    if (met) {
      loop.stop();
    } else {
      pace.start(milliseconds(1), check);
    }
  };
  pace.start(milliseconds(1), check);
  limit.start(seconds(20), [&loop] { loop.stop(); });
  loop.run();
  EXPECT_TRUE(met);
  return met;
}

}  // namespace kintsugi::workers::amqp_testing
