// Look-ups for tenants, away from those of the process itself.
#include <netdb.h>
#include <pthread.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "net/outgoing.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kMostThreads = 16;
constexpr std::size_t kMostOfOne = 2;
constexpr std::size_t kMostWaiting = 1'024;

/// One look-up. `mutex` guards `loop`, which is null once nobody waits.
struct Ticket {
  std::mutex mutex;
  Loop* loop = nullptr;
  std::string cluster, host;
  std::uint16_t port = 0;
  Outgoing::Answers done;  // touched on the loop only

  void forget() {
    const std::scoped_lock lock(mutex);
    loop = nullptr;
    done = nullptr;
  }
};
using TicketPtr = std::shared_ptr<Ticket>;

void tell(const TicketPtr& ticket, std::shared_ptr<Expected<std::vector<SocketAddress>>> result) {
  const std::scoped_lock lock(ticket->mutex);
  if (ticket->loop == nullptr) {
    return;
  }
  // Under the lock: whoever waits forgets before its loop dies.
  ticket->loop->post([ticket, result = std::move(result)] {
    if (const Outgoing::Answers done = std::exchange(ticket->done, nullptr)) {
      done(std::move(*result));
    }
  });
}

Expected<std::vector<SocketAddress>> look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failure != 0) {
    return fail(Errc::kUnreachable, ::gai_strerror(failure));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, item->ai_addr, item->ai_addrlen);
    address.size = item->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return addresses;
}

/// Never destroyed: its threads may sit in getaddrinfo when the process ends.
class Pool {
 public:
  static Pool& instance() {
    static Pool* const pool = new Pool;
    return *pool;
  }

  void ask(TicketPtr ticket) {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      tell(ticket, std::make_shared<Expected<std::vector<SocketAddress>>>(
                       fail(Errc::kUnreachable, "too many look-ups wait")));
      return;
    }
    waiting_.push_back(std::move(ticket));
    start();
  }

 private:
  /// With the lock. A thread for every look-up: they are few, and each may hang.
  void start() {
    for (auto at = waiting_.begin(); at != waiting_.end() && running_ < kMostThreads;) {
      std::size_t& of_one = of_cluster_[(*at)->cluster];
      if (of_one >= kMostOfOne) {
        ++at;
        continue;
      }
      TicketPtr ticket = std::move(*at);
      at = waiting_.erase(at);
      ++of_one;
      ++running_;
      std::thread thread([this, ticket = std::move(ticket)] { run(ticket); });
      ::pthread_setname_np(thread.native_handle(), "kin-dns-out");
      thread.detach();
    }
  }

  void run(const TicketPtr& ticket) {
    bool wanted = false;
    {
      const std::scoped_lock lock(ticket->mutex);
      wanted = ticket->loop != nullptr;
    }
    if (wanted) {
      tell(ticket, std::make_shared<Expected<std::vector<SocketAddress>>>(
                       look_up(ticket->host, ticket->port)));
    }
    const std::scoped_lock lock(mutex_);
    --running_;
    if (const auto one = of_cluster_.find(ticket->cluster); --one->second == 0) {
      of_cluster_.erase(one);
    }
    start();
  }

  std::mutex mutex_;
  std::deque<TicketPtr> waiting_;      // guarded by mutex_
  StringMap<std::size_t> of_cluster_;  // the same: running ones
  std::size_t running_ = 0;            // the same
};

}  // namespace

Outgoing::Resolve system_resolver() {
  return [](Loop& loop, const std::string& cluster, const std::string& host, std::uint16_t port,
            Outgoing::Answers done) -> std::shared_ptr<void> {
    auto ticket = std::make_shared<Ticket>();
    ticket->loop = &loop;
    ticket->cluster = cluster;
    ticket->host = host;
    ticket->port = port;
    ticket->done = std::move(done);
    Pool::instance().ask(ticket);
    return {ticket.get(), [ticket](void*) { ticket->forget(); }};
  };
}

}  // namespace kintsugi::net
