// Look-ups for tenants, away from those of the process itself.
#include <utility>
#include <vector>

#include "net/internal/dialer.h"
#include "net/loop.h"
#include "net/outgoing.h"
#include "net/work_pool.h"

namespace kintsugi::net {
namespace {

/// A thread for every look-up: they are few, and each may hang.
WorkPool& look_ups() {
  static WorkPool& pool =
      WorkPool::make({.thread_name = "kin-dns-out", .threads = 16, .of_one = 2, .waiting = 1'024});
  return pool;
}

}  // namespace

Outgoing::Resolve system_resolver() {
  return [](Loop& loop, const std::string& cluster, const std::string& host, std::uint16_t port,
            Outgoing::Answers done) -> std::shared_ptr<void> {
    auto found = std::make_shared<Expected<std::vector<SocketAddress>>>(
        fail(Errc::kUnreachable, "too many look-ups wait"));
    auto told = std::make_shared<std::function<void()>>(
        [found, done = std::move(done)] { done(std::move(*found)); });
    std::shared_ptr<void> kept = look_ups().run(
        loop, cluster, [found, host, port] { *found = look_up_now(host, port, true); },
        [told] { (*told)(); });
    if (kept != nullptr) {
      return kept;
    }
    loop.post([waits = std::weak_ptr<std::function<void()>>(told)] {
      if (const auto tell = waits.lock()) {
        (*tell)();
      }
    });
    return told;
  };
}

}  // namespace kintsugi::net
