#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "http/handler.h"
#include "net/body_gate.h"
#include "net/loop.h"
#include "proxy/routing/request.h"
#include "serving/memory_pressure.h"
#include "serving/process_limits.h"
#include "serving/refusals.h"

namespace kintsugi::proxy {

/// Counts every request against what its user, or the address of a stranger, may have, and
/// refuses those beyond it with 429 (E11). Health checks and servers of the installation are
/// exempt. Stands behind the AuditGate, which sees what it refuses, and before anything is looked
/// up. Threads: its loop. Cost without a limit: two loads.
class LimitGate final : public RoutedHandler {
 public:
  /// Who pays (SE-071).
  using Payer = std::function<net::BodyPayer(const http::PeerInfo&, const http::HeaderList&)>;
  /// @param inner  answers; must outlive it.
  /// @param pressure  above kTenants tenants and strangers are refused, too; null: there is none
  LimitGate(net::Loop& loop, std::shared_ptr<serving::ProcessLimits> limits,
            std::shared_ptr<serving::MemoryPressure> pressure, Payer payer, RoutedHandler& inner)
      : loop_(loop),
        limits_(std::move(limits)),
        pressure_(std::move(pressure)),
        payer_(std::move(payer)),
        inner_(inner),
        refusals_(loop) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> judge(Request&& request,
                                                            http::ResponseStream& stream);

  net::Loop& loop_;
  [[nodiscard]] bool is_shedding() const noexcept {
    return pressure_ != nullptr && pressure_->step() >= serving::ShedStep::kTenants;
  }

  std::shared_ptr<serving::ProcessLimits> limits_;
  std::shared_ptr<serving::MemoryPressure> pressure_;
  Payer payer_;
  RoutedHandler& inner_;
  serving::Refusals refusals_;
};

}  // namespace kintsugi::proxy
