#include "net/internal/dialer.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/strings.h"
#include "net/congestion.h"
#include "net/transport.h"

namespace kintsugi::net {

namespace asio = boost::asio;

std::optional<SocketAddress> numeric_address(const std::string& host, std::uint16_t port) {
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    result.size = sizeof *v4;
    return result;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    result.size = sizeof *v6;
    return result;
  }
  return std::nullopt;
}

bool is_localhost(std::string_view host) {
  std::string name = to_lower(host);
  if (name.ends_with('.')) {
    name.pop_back();
  }
  return name == "localhost" || name.ends_with(".localhost");
}

Expected<std::vector<SocketAddress>> look_up_now(const std::string& host, std::uint16_t port,
                                                 bool configured) {
  if (host.empty()) {
    return fail(Errc::kUnreachable, "no name");  // Asio would take it for this machine
  }
  if (is_localhost(host)) {
    return std::vector{*numeric_address("127.0.0.1", port), *numeric_address("::1", port)};
  }
  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  boost::system::error_code error;
  const auto flags =
      configured ? asio::ip::resolver_base::address_configured : asio::ip::resolver_base::flags();
  const auto found = resolver.resolve(host, std::to_string(port), flags, error);
  std::vector<SocketAddress> addresses;
  for (const auto& entry : found) {
    const asio::ip::tcp::endpoint endpoint = entry.endpoint();
    SocketAddress address;
    address.size = static_cast<socklen_t>(endpoint.size());
    std::memcpy(&address.storage, endpoint.data(), endpoint.size());
    addresses.push_back(address);
  }
  if (error || addresses.empty()) {
    return fail(Errc::kUnreachable, host + ": " + (error ? error.message() : "no address"));
  }
  return addresses;
}

/// Shared by the asking loop and the resolver thread; `mutex` guards `loop`, which is null once
/// nobody waits.
struct Lookup::Ticket : std::enable_shared_from_this<Lookup::Ticket> {
  std::mutex mutex;
  Loop* loop = nullptr;
  std::string host;
  std::uint16_t port = 0;
  Done done;  // touched on the loop only
};

namespace {

/// Runs one look-up after the other. Never destroyed: it may sit in the resolver when the process
/// ends.
asio::thread_pool& resolver_thread() {
  static asio::thread_pool* const pool = [] {
    auto* made = new asio::thread_pool(1);
    asio::post(*made, [] { ::pthread_setname_np(::pthread_self(), "kin-dns"); });
    return made;
  }();
  return *pool;
}

void resolve(const std::shared_ptr<Lookup::Ticket>& ticket) {
  {
    const std::scoped_lock lock(ticket->mutex);
    if (ticket->loop == nullptr) {
      return;
    }
  }
  auto found = std::make_shared<Expected<std::vector<SocketAddress>>>(
      look_up_now(ticket->host, ticket->port, false));
  const std::scoped_lock lock(ticket->mutex);
  if (ticket->loop == nullptr) {
    return;
  }
  // Under the lock: whoever waits must cancel before its loop dies, and cancelling takes the lock.
  ticket->loop->post([ticket, found] {
    {
      const std::scoped_lock inner(ticket->mutex);
      if (ticket->loop == nullptr) {
        return;
      }
    }
    const Lookup::Done done = std::exchange(ticket->done, nullptr);
    done(std::move(*found));
  });
}

}  // namespace

Lookup::Lookup(Loop& loop, std::string host, std::uint16_t port, Done done)
    : ticket_(std::make_shared<Ticket>()) {
  ticket_->loop = &loop;
  ticket_->host = std::move(host);
  ticket_->port = port;
  ticket_->done = std::move(done);
  asio::post(resolver_thread(), [ticket = ticket_] { resolve(ticket); });
}

Lookup::~Lookup() {
  const std::scoped_lock lock(ticket_->mutex);
  ticket_->loop = nullptr;
  ticket_->done = nullptr;
}

Connect::Connect(Loop& loop, std::vector<SocketAddress> addresses, Duration timeout, Done done,
                 Tried tried)
    : loop_(loop),
      addresses_(std::move(addresses)),
      done_(std::move(done)),
      tried_(std::move(tried)),
      share_(addresses_.size() < 2 ? timeout
                                   : timeout / static_cast<Duration::rep>(addresses_.size())),
      timer_(loop),
      share_timer_(loop) {
  timer_.start(timeout, [this] { finish(fail(Errc::kUnreachable, "connect timed out")); });
  next();
}

Connect::~Connect() { drop(); }

void Connect::drop() noexcept {
  if (fd_ >= 0) {
    loop_.forget(fd_);
    ::close(fd_);
    fd_ = -1;
  }
}

void Connect::tell(bool connected) {
  if (tried_) {
    tried_(addresses_[position_ - 1], connected);
  }
}

void Connect::next() {
  drop();
  while (position_ < addresses_.size()) {
    const SocketAddress& address = addresses_[position_++];
    const int fd =
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      last_error_ = errno;
      continue;
    }
    tune_tcp(fd);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 ||
        errno == EINPROGRESS) {
      fd_ = fd;
      loop_.watch(fd_, *this);  // tells writable at once or when the connection is there
      share_timer_.start(share_, [this] {
        last_error_ = ETIMEDOUT;
        tell(false);
        next();
      });
      return;
    }
    last_error_ = errno;
    ::close(fd);
    tell(false);
  }
  share_timer_.cancel();
  // Also from the constructor, so not at once.
  timer_.start(Duration::zero(), [this] {
    const Errc code = last_error_ == ECONNREFUSED ? Errc::kRefused : Errc::kUnreachable;
    finish(fail(code, last_error_ == 0 ? "no address" : std::strerror(last_error_)));
  });
}

void Connect::on_ready(bool /*readable*/, bool writable) noexcept {
  if (!writable) {
    return;
  }
  int failure = 0;
  socklen_t size = sizeof failure;
  if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &failure, &size) != 0) {
    failure = errno;
  }
  if (failure != 0) {
    last_error_ = failure;
    tell(false);
    next();
    return;
  }
  suit_congestion(fd_);
  tell(true);
  loop_.forget(fd_);
  finish(std::exchange(fd_, -1));
}

void Connect::finish(Expected<int> result) {
  timer_.cancel();
  share_timer_.cancel();
  drop();
  const Done done = std::move(done_);
  done(std::move(result));
}

}  // namespace kintsugi::net
