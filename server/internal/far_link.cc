#include "server/internal/far_link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/strings.h"

namespace kintsugi::server {
namespace {

constexpr std::size_t kMostUnderway = 4U << 20;
constexpr std::size_t kMostHead = 8U << 10;
constexpr std::size_t kPacket = 1'460;
constexpr int kBacklog = 512;
constexpr std::string_view kMade = "HTTP/1.1 200 Connection established\r\n\r\n";
constexpr std::string_view kRefused = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
constexpr std::string_view kAway = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";

sockaddr_in loopback(std::uint16_t port) noexcept {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void send_at_once(int fd) noexcept {
  const int on = 1;
  static_cast<void>(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

/// The port of "CONNECT 127.0.0.1:6443 HTTP/1.1"; nullopt: something else.
std::optional<std::uint16_t> port_in(std::string_view head) {
  constexpr std::string_view kBegin = "CONNECT 127.0.0.1:";
  if (!head.starts_with(kBegin)) {
    return std::nullopt;
  }
  head.remove_prefix(kBegin.size());
  return parse_decimal<std::uint16_t>(head.substr(0, head.find(' ')));
}

}  // namespace

/// A connection of somebody here, and the one that is made for it.
class FarLink::Connection {
 public:
  Connection(FarLink& link, int fd)
      : link_(link),
        far_at_(link.loop_.now() + 2 * link.params_.delay),
        near_(*this, link.loop_),
        far_(*this, link.loop_) {
    near_.peer = &far_;
    far_.peer = &near_;
    near_.take(fd);
    if (link.params_.target != 0) {
      dial(link.params_.target);
    }
  }

 private:
  /// Bytes that are on their way to an end; none: it has had all.
  struct Parcel {
    TimePoint due;
    std::string bytes;
  };
  struct End final : net::FdHandler {
    End(Connection& owner, net::Loop& its) : connection(owner), loop(its), timer(its) {}
    ~End() {
      if (fd >= 0) {
        loop.forget(fd);
        ::close(fd);
      }
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;
    void take(int made) {
      fd = made;
      send_at_once(fd);
      loop.watch(fd, *this);
    }
    void on_ready(bool readable, bool writable) noexcept override {
      connection.on_end(*this, readable, writable);
    }

    Connection& connection;
    net::Loop& loop;
    End* peer = nullptr;
    int fd = -1;
    std::deque<Parcel> queue;  // to be written here
    std::size_t queued = 0;    // [bytes] of it
    std::size_t sent = 0;      // of its first
    TimePoint last_due{};
    bool has_read_all = false, has_sent_all = false;
    bool is_held = false;  // not read: the other end takes nothing
    net::Timer timer;
  };

  void on_end(End& which, bool readable, bool writable) noexcept {
    if (readable && !is_over_) {
      read(which);
    }
    if (writable && !is_over_) {
      write(which);
    }
  }

  void read(End& from) {
    std::array<char, 64U << 10> buffer;
    while (!is_over_ && !from.has_read_all) {
      End& to = *from.peer;
      if (to.queued >= kMostUnderway) {
        from.is_held = true;
        return;
      }
      const ssize_t got = ::recv(from.fd, buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return;
      }
      if (got < 0) {
        end();
        return;
      }
      from.has_read_all = got == 0;
      take({buffer.data(), static_cast<std::size_t>(got)}, from, to);
    }
  }

  void take(std::string_view bytes, End& from, End& to) {
    if (&from == &near_ && far_.fd < 0) {  // its first words
      head_ += bytes;
      const std::size_t end_of_head = head_.find("\r\n\r\n");
      if (end_of_head == std::string::npos) {
        if (bytes.empty() || head_.size() > kMostHead) {
          end();
        }
        return;
      }
      const std::optional<std::uint16_t> port = port_in(head_);
      if (!port) {
        refuse(kRefused);
      } else if (dial(*port)) {
        queue({far_at_, std::string(kMade)}, near_);
        if (std::string rest = head_.substr(end_of_head + 4); !rest.empty()) {
          take(rest, near_, far_);
        }
      }
      return;
    }
    const TimePoint begins = std::max(link_.loop_.now(), far_at_);
    queue({begins + link_.params_.delay + link_.stall_of(bytes.size()), std::string(bytes)}, to);
  }

  void refuse(std::string_view answer) {
    if (link_.params_.target != 0) {
      return end();
    }
    near_.has_read_all = true;
    queue({far_at_, std::string(answer)}, near_);
    queue({far_at_, {}}, near_);
    far_.has_sent_all = true;
  }

  bool dial(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const sockaddr_in address = loopback(port);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    if (fd < 0 || (::connect(fd, generic, sizeof address) != 0 && errno != EINPROGRESS)) {
      if (fd >= 0) {
        ::close(fd);
      }
      refuse(kAway);
      return false;
    }
    far_.take(fd);
    return true;
  }

  void queue(Parcel parcel, End& to) {
    parcel.due = to.last_due = std::max(parcel.due, to.last_due);
    to.queued += parcel.bytes.size();
    to.queue.push_back(std::move(parcel));
    if (to.queue.size() == 1) {
      write(to);
    }
  }

  void write(End& to) {
    while (!is_over_ && !to.queue.empty() && to.fd >= 0) {
      const TimePoint now = link_.loop_.now();
      Parcel& first = to.queue.front();
      if (first.due > now) {
        to.timer.start(first.due - now, [this, &to] { write(to); });
        return;
      }
      if (first.bytes.empty()) {
        ::shutdown(to.fd, SHUT_WR);
        to.has_sent_all = true;
      } else {
        const ssize_t put =
            ::send(to.fd, first.bytes.data() + to.sent, first.bytes.size() - to.sent, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) {
          continue;
        }
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) {
          return;  // on_ready() comes
        }
        if (put < 0) {
          end();
          return;
        }
        to.sent += static_cast<std::size_t>(put);
        if (to.sent < first.bytes.size()) {
          continue;
        }
      }
      to.queued -= first.bytes.size();
      to.sent = 0;
      to.queue.pop_front();
      if (End& from = *to.peer; std::exchange(from.is_held, false) && from.fd >= 0) {
        link_.loop_.read_again(from.fd);
      }
    }
    if (near_.has_sent_all && far_.has_sent_all) {
      end();
    }
  }

  void end() noexcept {
    if (!std::exchange(is_over_, true)) {
      link_.remove(*this);
    }
  }

  FarLink& link_;
  const TimePoint far_at_;  // when the connection is there
  std::string head_;        // of CONNECT, until it is whole
  End near_, far_;
  bool is_over_ = false;
};

Expected<std::unique_ptr<FarLink>> FarLink::open(net::Loop& loop, Params params) {
  std::unique_ptr<FarLink> link(new FarLink(loop, params));
  const int fd = link->fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || ::bind(fd, generic, size) != 0 || ::listen(fd, kBacklog) != 0 ||
      ::getsockname(fd, generic, &size) != 0) {
    return fail(Errc::kIo, "no port of 127.0.0.1: " + std::generic_category().message(errno));
  }
  link->port_ = ntohs(address.sin_port);
  loop.watch(fd, *link);
  return link;
}

FarLink::FarLink(net::Loop& loop, Params params) noexcept : loop_(loop), params_(params) {}

FarLink::~FarLink() {
  connections_.clear();
  if (fd_ >= 0) {
    loop_.forget(fd_);
    ::close(fd_);
  }
}

void FarLink::on_ready(bool /*readable*/, bool /*writable*/) noexcept {
  for (;;) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && errno != EINTR) {
      return;
    }
    if (fd >= 0) {
      auto made = std::make_unique<Connection>(*this, fd);
      connections_.emplace(made.get(), std::move(made));
    }
  }
}

void FarLink::remove(Connection& connection) {
  loop_.post(alive_.guard([this, &connection] { connections_.erase(&connection); }));
}

Duration FarLink::stall_of(std::size_t bytes) {
  Duration stall{};
  for (std::size_t at = 0; params_.lost_per_mille > 0 && at < bytes; at += kPacket) {
    stall += random_() % 1'000 < params_.lost_per_mille ? 2 * params_.delay : Duration{};
  }
  return stall;
}

}  // namespace kintsugi::server
