#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/secret.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::auth {

/// Where events are posted (SE-168), and how: Kubernetes' webhook backend in mode `batch`.
struct AuditWebhookParams {
  net::UpstreamParams server;  ///< the operator's; its path is the target
  Secret authorization;        ///< value of the header; "": none
  std::size_t batch_events = 400;
  Duration batch_wait = seconds(1);
  std::size_t queue_events = 10'000;  ///< that wait, with those on their way
  std::size_t queue_bytes = std::size_t{32} << 20;
  Duration timeout = seconds(10);  ///< of one post
  /// @{ Between tries of the same batch, doubled each time.
  Duration first_pause = milliseconds(250), last_pause = seconds(30);
  /// @}
  Duration last_wait = seconds(5);  ///< at the end
};

/// Posts events of audit.k8s.io/v1 as EventLists, one after another, from a thread and a loop of
/// its own: no request waits for it. What the server does not take (no answer, 429, 5xx) is tried
/// again for ever, what it refuses (other codes than 2xx) and what finds the queue full is lost,
/// counted, and a line in 10 s says so. Order is kept. Threads: any but for the end.
class AuditWebhook {
 public:
  explicit AuditWebhook(AuditWebhookParams params);
  /// Posts what waits, for `last_wait` at most; the rest is lost. Nobody may add any more.
  ~AuditWebhook();
  AuditWebhook(const AuditWebhook&) = delete;
  AuditWebhook& operator=(const AuditWebhook&) = delete;

  /// @param event a JSON object in one line. No lock but for the first event of a batch.
  void add(std::string event);

  struct Stats {
    std::uint64_t sent = 0, dropped = 0;  ///< events
    std::uint64_t failures = 0;           ///< posts that had to be tried again, or were refused
    std::size_t queued = 0;               ///< events that wait
  };
  [[nodiscard]] Stats stats() const noexcept;

 private:
  class Sender;
  std::shared_ptr<Sender> sender_;  // the loop's callbacks have it as well
  std::thread thread_;
};

class AuditLog;
/// Where lines of audit go: to both, where there are both. Null: there is none. They must outlive
/// it.
[[nodiscard]] std::function<void(std::string line)> audit_into(AuditLog* log,
                                                               AuditWebhook* webhook);

}  // namespace kintsugi::auth
