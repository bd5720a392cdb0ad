#include "net/congestion.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace kintsugi::net {
namespace {

std::string kernel_says(const std::string& what) {
  std::ifstream file("/proc/sys/net/ipv4/tcp_" + what);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Both ends of a connection on this machine.
class CongestionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listener_, generic, size), 0);
    ASSERT_EQ(::listen(listener_, 1), 0);
    ASSERT_EQ(::getsockname(listener_, generic, &size), 0);
    ASSERT_EQ(::connect(client_, generic, size), 0);
    server_ = ::accept(listener_, nullptr, nullptr);
    ASSERT_GE(server_, 0);
    usual_ = congestion_of(client_);
    ASSERT_FALSE(usual_.empty());
  }
  ~CongestionTest() override {
    EXPECT_TRUE(use_congestion("auto"));
    for (const int fd : {listener_, client_, server_}) {
      ::close(fd);
    }
  }
  int listener_ = ::socket(AF_INET, SOCK_STREAM, 0), client_ = ::socket(AF_INET, SOCK_STREAM, 0);
  int server_ = -1;
  std::string usual_;
};

TEST_F(CongestionTest, GR_507_NearConnectionsStayAsTheKernelHasThem) {
  EXPECT_LT(kernel_round_trip(client_), kFar);
  for (const int fd : {client_, server_}) {
    suit_congestion(fd);
    EXPECT_EQ(congestion_of(fd), usual_);
  }
}

TEST_F(CongestionTest, GR_507_FarOnesHaveBbrWhereTheKernelLetsThem) {
  suit_congestion(client_, kFar + milliseconds(1));
  const bool may = kernel_says("allowed_congestion_control").find("bbr") != std::string::npos ||
                   (::geteuid() == 0 &&
                    kernel_says("available_congestion_control").find("bbr") != std::string::npos);
  EXPECT_EQ(congestion_of(client_), may ? "bbr" : usual_);
}

TEST_F(CongestionTest, GR_507_SystemLeavesAllAsTheyAreAndANameIsForAll) {
  ASSERT_TRUE(use_congestion("system"));
  suit_congestion(client_, seconds(1));
  EXPECT_EQ(congestion_of(client_), usual_);
  ASSERT_TRUE(use_congestion("reno"));
  suit_congestion(client_);
  EXPECT_EQ(congestion_of(client_), "reno");
}

TEST_F(CongestionTest, GR_507_WhatTheKernelDoesNotHaveIsRefused) {
  for (const char* name : {"", "none-such", "a-name-that-is-too-long"}) {
    const auto used = use_congestion(name);
    ASSERT_FALSE(used) << name;
    EXPECT_EQ(used.error().code(), Errc::kConfig);
  }
  suit_congestion(client_);
  EXPECT_EQ(congestion_of(client_), usual_) << "what was used before is used";
}

TEST(Congestion, WhatIsNoTcpConnectionHasNone) {
  int pair[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_EQ(kernel_round_trip(pair[0]), Duration::zero());
  EXPECT_EQ(congestion_of(pair[0]), "");
  suit_congestion(pair[0], seconds(1));
  ::close(pair[0]);
  ::close(pair[1]);
}

}  // namespace
}  // namespace kintsugi::net
