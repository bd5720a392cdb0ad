#include "net/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace kintsugi::net {
namespace {

constexpr std::string_view kFarAlgorithm = "bbr";
constexpr std::size_t kMostName = 16;  // TCP_CA_NAME_MAX

struct Choice {
  std::string all;     // of every connection; "": the kernel's
  bool suits = false;  // far ones get another one
};

struct Chosen {
  std::mutex mutex;
  std::shared_ptr<const Choice> choice = std::make_shared<const Choice>(Choice{"", true});
  bool told = false;  // that the kernel has none for far connections
};

Chosen& chosen() {
  static Chosen one;
  return one;
}

bool set(int fd, std::string_view algorithm) noexcept {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm.data(),
                      static_cast<socklen_t>(algorithm.size())) == 0;
}

void tell_once() {
  {
    Chosen& one = chosen();
    const std::scoped_lock lock(one.mutex);
    if (std::exchange(one.told, true)) {
      return;
    }
  }
  log_info("the kernel has no BBR for connections to far peers, or not for this process",
           {{"see", "net.ipv4.tcp_allowed_congestion_control"}});
}

}  // namespace

Expected<void> use_congestion(const std::string& name) {
  Choice choice;
  if (name == "auto") {
    choice.suits = true;
  } else if (name != "system") {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool known = !name.empty() && name.size() < kMostName && fd >= 0 && set(fd, name);
    const int failure = errno;
    if (fd >= 0) {
      ::close(fd);
    }
    if (!known) {
      return fail(Errc::kConfig,
                  "\"" + name + "\": " +
                      (name.empty() || name.size() >= kMostName ? "is no algorithm's name"
                                                                : std::strerror(failure)));
    }
    choice.all = name;
  }
  Chosen& one = chosen();
  const std::scoped_lock lock(one.mutex);
  one.choice = std::make_shared<const Choice>(std::move(choice));
  return {};
}

void suit_congestion(int fd) noexcept { suit_congestion(fd, kernel_round_trip(fd)); }

void suit_congestion(int fd, Duration round_trip) noexcept {
  std::shared_ptr<const Choice> choice;
  {
    Chosen& one = chosen();
    const std::scoped_lock lock(one.mutex);
    choice = one.choice;
  }
  if (!choice->all.empty()) {
    static_cast<void>(set(fd, choice->all));
  } else if (choice->suits && round_trip > kFar && !set(fd, kFarAlgorithm)) {
    tell_once();
  }
}

Duration kernel_round_trip(int fd) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return {};
  }
  return std::chrono::microseconds(info.tcpi_rtt);
}

std::string congestion_of(int fd) {
  std::array<char, kMostName> name{};
  socklen_t size = name.size();
  if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) {
    return {};
  }
  return {name.data(), ::strnlen(name.data(), size)};
}

}  // namespace kintsugi::net
