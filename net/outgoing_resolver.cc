// Look-ups for tenants, away from those of the process itself.
#include <pthread.h>

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
                       look_up_now(ticket->host, ticket->port, true)));
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
