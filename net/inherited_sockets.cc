#include "net/inherited_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/strings.h"

namespace kintsugi::net {
namespace {

constexpr int kFirst = 3;
constexpr std::uint32_t kMost = 64;

std::string_view variable(const char* name) noexcept {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

int option(int fd, int name) noexcept {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

bool listens_for_tcp(int fd) noexcept {
  const int family = option(fd, SO_DOMAIN);
  return (family == AF_INET || family == AF_INET6) && option(fd, SO_TYPE) == SOCK_STREAM &&
         option(fd, SO_ACCEPTCONN) == 1;
}

bool make_own(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
         ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

}  // namespace

std::size_t inherited_descriptors() noexcept {
  const auto process = parse_decimal<std::uint32_t>(variable("LISTEN_PID"));
  const auto count = parse_decimal<std::uint32_t>(variable("LISTEN_FDS"));
  const bool is_ours = process && *process == static_cast<std::uint32_t>(::getpid());
  return is_ours && count && *count <= kMost ? *count : 0;
}

Expected<std::vector<int>> take_inherited_sockets() {
  std::vector<int> taken;
  const std::size_t count = inherited_descriptors();
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    ::unsetenv(name);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = kFirst + static_cast<int>(i);
    if (!listens_for_tcp(fd) || !make_own(fd)) {
      return fail(Errc::kConfig, "LISTEN_FDS: descriptor " + std::to_string(fd) +
                                     " is no TCP socket that listens");
    }
    taken.push_back(fd);
  }
  return taken;
}

std::uint16_t bound_port(int fd) {
  const std::string address = bound_address(fd);
  const std::size_t colon = address.rfind(':');
  return colon == std::string::npos
             ? std::uint16_t{0}
             : parse_decimal<std::uint16_t>(std::string_view(address).substr(colon + 1))
                   .value_or(0);
}

std::string bound_address(int fd) {
  sockaddr_storage storage{};
  auto* const any = reinterpret_cast<sockaddr*>(&storage);
  socklen_t size = sizeof storage;
  if (::getsockname(fd, any, &size) != 0) {
    return "";
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (any->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(any);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(v4->sin_port));
  }
  if (any->sa_family != AF_INET6) {
    return "";
  }
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(any);
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6->sin6_port));
}

}  // namespace kintsugi::net
