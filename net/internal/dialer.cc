#include "net/internal/dialer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "net/transport.h"

namespace kintsugi::net {

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

class Resolver {
 public:
  static Resolver& instance() {
    // Never destroyed: the thread may sit in getaddrinfo when the process ends.
    static Resolver* const resolver = new Resolver;
    return *resolver;
  }

  void ask(std::shared_ptr<Lookup::Ticket> ticket) {
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(std::move(ticket));
    }
    wake_.notify_one();
  }

 private:
  Resolver() {
    std::thread thread([this] { run(); });
    ::pthread_setname_np(thread.native_handle(), "kin-dns");
    thread.detach();
  }

  [[noreturn]] void run() {
    while (true) {
      std::shared_ptr<Lookup::Ticket> ticket;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !queue_.empty(); });
        ticket = std::move(queue_.front());
        queue_.pop_front();
      }
      resolve(std::move(ticket));
    }
  }

  static void resolve(std::shared_ptr<Lookup::Ticket> ticket) {
    {
      const std::scoped_lock lock(ticket->mutex);
      if (ticket->loop == nullptr) {
        return;
      }
    }
    auto addresses = std::make_shared<std::vector<SocketAddress>>();
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int failure =
        ::getaddrinfo(ticket->host.c_str(), std::to_string(ticket->port).c_str(), &hints, &list);
    for (const addrinfo* item = failure == 0 ? list : nullptr; item != nullptr;
         item = item->ai_next) {
      SocketAddress address;
      std::memcpy(&address.storage, item->ai_addr, item->ai_addrlen);
      address.size = item->ai_addrlen;
      addresses->push_back(address);
    }
    if (failure == 0) {
      ::freeaddrinfo(list);
    }
    const std::scoped_lock lock(ticket->mutex);
    if (ticket->loop == nullptr) {
      return;
    }
    // Under the lock: whoever waits must cancel before its loop dies, and cancelling takes the
    // lock.
    ticket->loop->post([ticket, addresses, failure] {
      {
        const std::scoped_lock inner(ticket->mutex);
        if (ticket->loop == nullptr) {
          return;
        }
      }
      const Lookup::Done done = std::exchange(ticket->done, nullptr);
      if (addresses->empty()) {
        done(fail(Errc::kUnreachable, ticket->host + ": " + ::gai_strerror(failure)));
      } else {
        done(std::move(*addresses));
      }
    });
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Lookup::Ticket>> queue_;  // guarded by mutex_
};

}  // namespace

Lookup::Lookup(Loop& loop, std::string host, std::uint16_t port, Done done)
    : ticket_(std::make_shared<Ticket>()) {
  ticket_->loop = &loop;
  ticket_->host = std::move(host);
  ticket_->port = port;
  ticket_->done = std::move(done);
  Resolver::instance().ask(ticket_);
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
