#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/time.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

/// Only for tests and benches: one router or broker that has management alone, on 127.0.0.1, with
/// AMQP of Proton's engine and SASL ANONYMOUS. It takes several connections; requests to
/// `$management`, or `activemq.management`, are answered out of FakeRouter or FakeBroker.
/// Time: an operation takes `latency` and what the hazards cost; one after another unless
/// `parallel`, but those of the router's agent always (MH-8).
/// Answers of routers are presettled, and dropped where the receiver gave no credit; those of
/// brokers are not settled, and wait for credit.
/// Threads: one at a time.
class FakeComponent {
 public:
  struct Params {
    ComponentKind kind = ComponentKind::kRouter;
    std::uint16_t port = 0;  ///< 0: chosen
    Duration latency = milliseconds(1);
    bool parallel = false, hazards = true;
    std::string container;  ///< "": R1 or b0
  };
  explicit FakeComponent(Params params);
  ~FakeComponent();
  FakeComponent(const FakeComponent&) = delete;
  FakeComponent& operator=(const FakeComponent&) = delete;

  /// @returns the port. @error kIo
  [[nodiscard]] Expected<std::uint16_t> listen();
  /// Waits for what comes next, at most so long, and does it. Ends early on a signal.
  void run_once(Duration most);
  /// Everything made by management is lost, and all connections end, as when it is started anew.
  void restart_empty();
  /// One JSON object: what it was sent by operation and type ("CREATE …config.address",
  /// "createQueue"), answered, dropped without credit; connections; what it holds.
  [[nodiscard]] std::string counts() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace kintsugi::workers
