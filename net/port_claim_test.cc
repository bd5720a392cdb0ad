#include "net/port_claim.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::must;

/// What another process has: a listener with or without SO_REUSEPORT. @returns the descriptor, -1:
/// the port is not to be had.
int listen_outside(std::uint16_t port, bool shares) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (shares) {
    (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, 8) == 0) {
    return fd;
  }
  ::close(fd);
  return -1;
}

std::uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

struct Fixture {
  Loop loop{"test"};
  testing::TestServer server;
  Expected<std::unique_ptr<Listener>> open(std::uint16_t port) {
    ListenerParams params;
    params.address = "127.0.0.1";
    params.port = port;
    params.reuse_port = true;
    return Listener::open(loop, params, server);
  }
};

TEST(PortClaim, WhenAnotherProcessHasThePort_FP161_ItIsInUseForUs) {
  for (const bool shares : {false, true}) {
    const int other = listen_outside(0, shares);
    ASSERT_GE(other, 0);
    Fixture fixture;
    const auto listener = fixture.open(port_of(other));
    ASSERT_FALSE(listener) << shares;
    EXPECT_EQ(listener.error().message(),
              "127.0.0.1:" + std::to_string(port_of(other)) + ": address already in use");
    ::close(other);
  }
}

TEST(PortClaim, WhenWeHaveThePort_FP161_OurLoopsShareItAndOthersDoNot) {
  Fixture fixture;
  auto first = must(fixture.open(0));
  const std::uint16_t port = first->port();
  EXPECT_EQ(listen_outside(port, false), -1);
  auto second = must(fixture.open(port));
  auto third = must(fixture.open(port));
  EXPECT_EQ(listen_outside(port, false), -1);
  first.reset();
  auto fourth = must(fixture.open(port));  // others of ours have it still
  second.reset();
  third.reset();
  fourth.reset();
  EXPECT_FALSE(PortClaim::joins("127.0.0.1", port));
  const int other = listen_outside(port, false);
  EXPECT_GE(other, 0);
  ::close(other);
}

}  // namespace
}  // namespace kintsugi::net
