// Bytes between regions come late, in order, and all of them (GR-508).
#include "server/internal/far_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "net/testing/support.h"

namespace kintsugi::server {
namespace {

using net::testing::must;
using net::testing::run_until;

constexpr Duration kOneWay = milliseconds(15);

sockaddr_in at_port(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Gives one connection back what it says, until that ends.
class Echo {
 public:
  Echo() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = at_port(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      const int client = ::accept(fd_, nullptr, nullptr);
      char bytes[16'384];
      for (ssize_t got; client >= 0 && (got = ::recv(client, bytes, sizeof bytes, 0)) > 0;) {
        EXPECT_EQ(::send(client, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL), got);
      }
      ::close(client);
    });
  }
  ~Echo() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// What somebody does who waits for each answer.
class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = at_port(port);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(fd_); }
  void say(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t put = ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      ASSERT_GT(put, 0);
      at += static_cast<std::size_t>(put);
    }
  }
  /// So many bytes, or all until the end.
  std::string hear(std::size_t most) {
    std::string out;
    char bytes[16'384];
    while (out.size() < most) {
      const ssize_t got = ::recv(fd_, bytes, std::min(sizeof bytes, most - out.size()), 0);
      if (got <= 0) {
        break;
      }
      out.append(bytes, static_cast<std::size_t>(got));
    }
    return out;
  }
  void end() { ::shutdown(fd_, SHUT_WR); }

 private:
  int fd_;
};

class FarLinkTest : public ::testing::Test {
 protected:
  void open(FarLink::Params params) {
    params.delay = kOneWay;
    link = must(FarLink::open(loop, params));
  }
  /// On a thread of its own, while the loop runs.
  template <class Function>
  void meanwhile(Function function) {
    std::atomic<bool> done = false;
    std::thread thread([&] {
      function();
      done = true;
    });
    EXPECT_TRUE(run_until(loop, [&] { return done.load() && link->connections() == 0; }));
    thread.join();
  }
  [[nodiscard]] std::string connect_to(std::uint16_t port) const {
    return "CONNECT 127.0.0.1:" + std::to_string(port) + " HTTP/1.1\r\nhost: x\r\n\r\n";
  }

  net::Loop loop{"test"};
  std::unique_ptr<FarLink> link;
};

TEST_F(FarLinkTest, GR_508_ByConnectEachWayTakesItsTime) {
  open({});
  const Echo echo;
  meanwhile([&] {
    Client client(link->port());
    const TimePoint begin = Clock::now();
    client.say(connect_to(echo.port()));
    EXPECT_EQ(client.hear(39), "HTTP/1.1 200 Connection established\r\n\r\n");
    EXPECT_GE(Clock::now() - begin, 2 * kOneWay) << "as a connection takes";
    const TimePoint then = Clock::now();
    client.say("hello");
    EXPECT_EQ(client.hear(5), "hello");
    EXPECT_GE(Clock::now() - then, 2 * kOneWay);
    client.end();
    EXPECT_EQ(client.hear(1), "");
  });
}

TEST_F(FarLinkTest, GR_507_MoreThanIsUnderWayAtOnceComesWholeAndInOrder) {
  const Echo echo;
  open({.target = echo.port()});
  std::string text;
  for (int i = 0; text.size() < (12U << 20); ++i) {
    text += std::to_string(i) + ",";
  }
  meanwhile([&] {
    Client client(link->port());
    std::thread talker([&] {
      client.say(text);
      client.end();
    });
    EXPECT_TRUE(client.hear(text.size() + 1) == text);
    talker.join();
  });
}

TEST_F(FarLinkTest, GR_507_ALostPacketHoldsUpWhatIsBehindIt) {
  const Echo echo;
  open({.target = echo.port(), .lost_per_mille = 1'000});
  meanwhile([&] {
    Client client(link->port());
    const TimePoint begin = Clock::now();
    client.say("hello");
    EXPECT_EQ(client.hear(5), "hello");
    EXPECT_GE(Clock::now() - begin, 8 * kOneWay) << "connection, way, and one loss each way";
  });
}

TEST_F(FarLinkTest, SE_103_ItLeadsToThisMachineAlone) {
  open({});
  meanwhile([&] {
    for (const char* head : {"CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                             "CONNECT 127.0.0.1:99999 HTTP/1.1\r\n\r\n"}) {
      Client client(link->port());
      client.say(head);
      EXPECT_TRUE(client.hear(1'000).starts_with("HTTP/1.1 403 ")) << head;
    }
    Client mute(link->port());
    mute.end();
    EXPECT_EQ(mute.hear(1), "");
    std::uint16_t closed = 0;
    {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address = at_port(0);
      socklen_t size = sizeof address;
      EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
      EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
      closed = ntohs(address.sin_port);
      ::close(fd);
    }
    Client nobody(link->port());
    nobody.say(connect_to(closed));
    EXPECT_FALSE(nobody.hear(1'000).starts_with("HTTP/1.1 200 "));
  });
}

}  // namespace
}  // namespace kintsugi::server
