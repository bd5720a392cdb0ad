#include "net/service_notices.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/strings.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kMostUnsent = 8;
constexpr std::size_t kLongestStatus = 512;  // bytes

std::string take_variable(const char* name) {
  const char* const value = std::getenv(name);
  std::string out = value == nullptr ? "" : value;
  ::unsetenv(name);
  return out;
}

bool is_address(std::string_view socket) {
  return socket.size() > 1 && (socket[0] == '/' || socket[0] == '@') &&
         socket.size() < sizeof(sockaddr_un::sun_path);
}

/// One line of bounded length: a message has one assignment a line.
std::string as_line(std::string_view text) {
  std::string out(text.substr(0, kLongestStatus));
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

}  // namespace

ServiceEnvironment take_service_environment() {
  ServiceEnvironment out;
  out.socket = take_variable("NOTIFY_SOCKET");
  const auto every = parse_decimal<std::uint32_t>(take_variable("WATCHDOG_USEC"));
  const std::string whose = take_variable("WATCHDOG_PID");
  if (!is_address(out.socket)) {
    out.socket.clear();
  }
  if (every && !out.socket.empty() && (whose.empty() || whose == std::to_string(::getpid()))) {
    out.watchdog = std::chrono::microseconds(*every);
  }
  return out;
}

void ServiceNotices::ready(std::string_view status) {
  const std::string line = as_line(status);
  {
    const std::scoped_lock lock(mutex_);
    status_ = line;
  }
  tell("READY=1\nMAINPID=" + std::to_string(::getpid()) + "\nSTATUS=" + line);
}

void ServiceNotices::status(std::string_view status) {
  std::string line = as_line(status);
  {
    const std::scoped_lock lock(mutex_);
    if (line == status_) {
      return;
    }
    status_ = line;
  }
  tell("STATUS=" + line);
}

void ServiceNotices::reloading(std::chrono::microseconds monotonic) {
  tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic.count()));
}

void ServiceNotices::stopping() { tell("STOPPING=1\nSTATUS=stops"); }

void ServiceNotices::extend(Duration more) {
  tell("EXTEND_TIMEOUT_USEC=" + std::to_string(more / std::chrono::microseconds(1)));
}

void ServiceNotices::alive() { tell("WATCHDOG=1", true); }

void ServiceNotices::tell(std::string message, bool may_be_lost) {
  if (environment_.socket.empty()) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  unsent_.push_back(std::move(message));
  while (!unsent_.empty() && send(unsent_.front())) {
    unsent_.pop_front();
  }
  if (may_be_lost && !unsent_.empty()) {
    unsent_.pop_back();
  } else if (unsent_.size() > kMostUnsent) {
    unsent_.pop_front();
  }
}

/// @returns false where the manager has not read what was sent before: another time it may.
bool ServiceNotices::send(const std::string& message) const {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, environment_.socket.data(), environment_.socket.size());
  if (to.sun_path[0] == '@') {
    to.sun_path[0] = '\0';
  }
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) {
    return false;
  }
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + environment_.socket.size());
  const ssize_t sent = ::sendto(socket, message.data(), message.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&to), size);
  const int error = errno;
  ::close(socket);
  return sent >= 0 || (error != EAGAIN && error != ENOBUFS && error != EINTR);
}

ServiceNotices& service_notices() {
  static ServiceNotices notices(take_service_environment());
  return notices;
}

}  // namespace kintsugi::net
