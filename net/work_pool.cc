#include "net/work_pool.h"

#include <pthread.h>

#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "net/loop.h"

namespace kintsugi::net {
namespace {

/// One piece of work. `mutex` guards `loop`, which is null once nobody waits.
struct Ticket {
  std::mutex mutex;
  Loop* loop = nullptr;
  std::string owner;
  std::function<void()> work;  // of the thread that runs it
  std::function<void()> done;  // touched on the loop only

  [[nodiscard]] bool is_wanted() {
    const std::scoped_lock lock(mutex);
    return loop != nullptr;
  }
  void forget() {
    const std::scoped_lock lock(mutex);
    loop = nullptr;
    done = nullptr;
  }
};
using TicketPtr = std::shared_ptr<Ticket>;

void tell(const TicketPtr& ticket) {
  const std::scoped_lock lock(ticket->mutex);
  if (ticket->loop == nullptr) {
    return;
  }
  // Under the lock: whoever waits forgets before its loop dies.
  ticket->loop->post([ticket] {
    if (const std::function<void()> done = std::exchange(ticket->done, nullptr)) {
      done();
    }
  });
}

}  // namespace

struct WorkPool::State {
  explicit State(const Limits& of_pool) : limits(of_pool) {}

  /// With the lock.
  void start() {
    for (auto at = waiting.begin(); at != waiting.end() && running < limits.threads;) {
      std::size_t& of_one = of_owner[(*at)->owner];
      if (of_one >= limits.of_one) {
        ++at;
        continue;
      }
      TicketPtr ticket = std::move(*at);
      at = waiting.erase(at);
      ++of_one;
      ++running;
      std::thread thread([this, ticket = std::move(ticket)] { run(ticket); });
      ::pthread_setname_np(thread.native_handle(), limits.thread_name);
      thread.detach();
    }
  }

  void run(const TicketPtr& ticket) {
    if (ticket->is_wanted()) {
      ticket->work();
      tell(ticket);
    }
    ticket->work = nullptr;
    const std::scoped_lock lock(mutex);
    --running;
    if (const auto one = of_owner.find(ticket->owner); --one->second == 0) {
      of_owner.erase(one);
    }
    start();
  }

  const Limits limits;
  std::mutex mutex;
  std::deque<TicketPtr> waiting;    // guarded by mutex
  StringMap<std::size_t> of_owner;  // the same: running ones
  std::size_t running = 0;          // the same
};

WorkPool::WorkPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

WorkPool& WorkPool::make(const Limits& limits) {
  return *new WorkPool(std::make_unique<State>(limits));
}

std::shared_ptr<void> WorkPool::run(Loop& loop, const std::string& owner,
                                    std::function<void()> work, std::function<void()> done) {
  auto ticket = std::make_shared<Ticket>();
  ticket->loop = &loop;
  ticket->owner = owner;
  ticket->work = std::move(work);
  ticket->done = std::move(done);
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->waiting.size() >= state_->limits.waiting) {
      return nullptr;
    }
    state_->waiting.push_back(ticket);
    state_->start();
  }
  return {ticket.get(), [ticket](void*) { ticket->forget(); }};
}

}  // namespace kintsugi::net
