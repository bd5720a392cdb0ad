#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>

namespace kintsugi::net::testing {

/// An HTTP proxy of one connection: what it says is sent, then bytes pass to the listener. Port 0:
/// it closes then; saying nothing: it keeps the connection until the other side closes it.
class HttpProxy {
 public:
  HttpProxy(std::string says, std::uint16_t to) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, says = std::move(says), to] { serve(says, to); });
  }
  ~HttpProxy() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  std::string asked;

 private:
  void serve(const std::string& says, std::uint16_t to) {
    const int client = ::accept(fd_, nullptr, nullptr);
    if (client < 0) {
      return;
    }
    char byte = 0;
    while (!asked.ends_with("\r\n\r\n") && ::recv(client, &byte, 1, 0) == 1) {
      asked += byte;
    }
    while (says.empty() && to != 0 && ::recv(client, &byte, 1, 0) == 1) {
    }
    EXPECT_EQ(::send(client, says.data(), says.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(says.size()));
    const int there = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(to);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (to != 0 && ::connect(there, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      // The last one tells when the destructor wants an end.
      pollfd sides[3] = {{client, POLLIN, 0}, {there, POLLIN, 0}, {fd_, 0, 0}};
      char bytes[4096];
      for (bool open = true; open && ::poll(sides, 3, 10'000) > 0 && sides[2].revents == 0;) {
        for (int i = 0; open && i < 2; ++i) {
          if (sides[i].revents != 0) {
            const ssize_t got = ::recv(sides[i].fd, bytes, sizeof bytes, 0);
            open = got > 0 && ::send(sides[1 - i].fd, bytes, static_cast<std::size_t>(got),
                                     MSG_NOSIGNAL) == got;
          }
        }
      }
    }
    ::close(there);
    ::close(client);
  }

  int fd_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace kintsugi::net::testing
