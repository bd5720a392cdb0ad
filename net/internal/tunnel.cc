#include "net/internal/tunnel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace kintsugi::net {
namespace {

constexpr std::size_t kMaxHead = 8192;
constexpr std::string_view kEnd = "\r\n\r\n";

/// "HTTP/1.1 200 …": the server is at the other end now.
bool is_taken(std::string_view head) {
  return head.size() > 12 && head.starts_with("HTTP/1.") && head.substr(8, 2) == " 2" &&
         (head[12] == ' ' || head[12] == '\r');
}

}  // namespace

Tunnel::Tunnel(Loop& loop, int fd, const std::string& target, const Secret& authorization,
               Duration timeout, Done done)
    : loop_(loop), fd_(fd), done_(std::move(done)), timer_(loop) {
  out_ = "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n";
  if (!authorization.empty()) {
    out_.reserve(out_.size() + authorization.size() + 64);  // grown, it would leave a part behind
    out_.append("Proxy-Authorization: ").append(authorization.view()).append("\r\n");
  }
  out_ += "\r\n";
  timer_.start(timeout, [this] { finish(fail(Errc::kUnreachable, "the proxy does not answer")); });
  loop_.watch(fd_, *this);
}

Tunnel::~Tunnel() {
  wipe(out_);
  drop();
}

void Tunnel::drop() noexcept {
  if (fd_ >= 0) {
    loop_.forget(fd_);
    ::close(fd_);
    fd_ = -1;
  }
}

void Tunnel::on_ready(bool readable, bool writable) noexcept {
  if (writable && !out_.empty()) {
    send();
  }
  if (readable && fd_ >= 0) {
    receive();
  }
}

void Tunnel::send() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      return;  // later, or receive() learns what is wrong
    }
    out_.erase(0, static_cast<std::size_t>(sent));
  }
}

/// Byte by byte at the end: what follows the head is the server's.
void Tunnel::receive() {
  for (;;) {
    char next = 0;
    const ssize_t got = ::recv(fd_, &next, 1, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      return;
    }
    if (got <= 0) {
      finish(fail(Errc::kUnreachable, "the proxy closed the connection"));
      return;
    }
    head_ += next;
    if (head_.ends_with(kEnd)) {
      break;
    }
    if (head_.size() == kMaxHead) {
      finish(fail(Errc::kUnreachable, "the answer of the proxy is too long"));
      return;
    }
  }
  if (!is_taken(head_)) {
    const bool is_status = head_.starts_with("HTTP/1.") && head_.size() > 12;
    finish(fail(Errc::kUnreachable, "the proxy refuses with status " +
                                        (is_status ? head_.substr(9, 3) : std::string("?"))));
    return;
  }
  loop_.forget(fd_);
  finish(std::exchange(fd_, -1));
}

void Tunnel::finish(Expected<int> result) {
  timer_.cancel();
  drop();
  const Done done = std::move(done_);
  done(std::move(result));
}

}  // namespace kintsugi::net
