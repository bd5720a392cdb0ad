#include "server/internal/worker_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/strings.h"

namespace kintsugi::server {
namespace {

/// -1: nobody listens there. A socket of this machine is connected at once or not at all.
int connected_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return -1;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

SocketFetch::SocketFetch(net::Loop& loop, const std::string& path, std::string_view target,
                         std::function<void(int, std::string)> done)
    : loop_(loop), fd_(connected_to(path)), done_(std::move(done)), turn_(loop) {
  const std::string request =
      "GET " + std::string(target) + " HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
  if (fd_ >= 0) {
    loop_.watch(fd_, *this);
    if (::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(request.size())) {
      return;
    }
    close();
  }
  turn_.start(Duration{}, [this] { finish(); });
}

SocketFetch::~SocketFetch() { close(); }

void SocketFetch::on_ready(bool readable, bool /*writable*/) noexcept {
  char part[16384];
  while (readable && fd_ >= 0) {
    const ssize_t size = ::recv(fd_, part, sizeof(part), 0);
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size < 0 && errno == EAGAIN) {
      return;
    }
    if (size <= 0 || text_.size() > kMostBytes) {
      close();
      turn_.start(Duration{}, [this] { finish(); });
      return;
    }
    text_.append(part, static_cast<std::size_t>(size));
  }
}

void SocketFetch::close() noexcept {
  if (fd_ >= 0) {
    loop_.forget(fd_);
    ::close(std::exchange(fd_, -1));
  }
}

void SocketFetch::finish() {
  auto [status, body] = read_answer(text_);
  const auto done = std::exchange(done_, nullptr);
  done(status, std::move(body));
}

std::pair<int, std::string> read_answer(std::string_view text) {
  constexpr std::string_view kHead = "HTTP/1.1 ";
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with(kHead) || end == std::string_view::npos) {
    return {};
  }
  const auto status = parse_decimal<int>(text.substr(kHead.size(), 3));
  const std::string_view body = text.substr(end + 4);
  std::string_view rest = text.substr(0, end + 2);
  while (!rest.empty()) {
    const std::size_t line_end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, line_end);
    rest.remove_prefix(line_end + 2);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        equals_ignore_case(line.substr(0, colon), "content-length")) {
      const auto length = parse_decimal<std::size_t>(trim(line.substr(colon + 1)));
      return status && length == body.size() ? std::pair<int, std::string>(*status, body)
                                             : std::pair<int, std::string>();
    }
  }
  return {};
}

}  // namespace kintsugi::server
