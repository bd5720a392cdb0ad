#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "auth/audit_policy.h"
#include "http/handler.h"
#include "net/loop.h"
#include "proxy/routing/request.h"

namespace kintsugi::proxy {

/// The proxy's audit log (FP-143): a line for every request that the policy wants one of, when it
/// is answered; for watches and tunnels one when they begin and one when they end. Stands between
/// the TokenGate and the ProxyHandler: it knows who asks, and sees what they are refused. A request
/// without an Audit-ID gets one, which the shard and the caller see, too. A refusal has a line
/// although the policy says None, or is counted (SE-007, auth/audit_refusals.h). Threads: its loop.
/// Cost without a log: a comparison.
class AuditGate final : public RoutedHandler {
 public:
  /// Gets a line; must not block.
  using Write = std::function<void(std::string line)>;
  /// @param write  empty: there is no log. @param inner  answers; must outlive it.
  AuditGate(net::Loop& loop, Write write, RoutedHandler& inner)
      : loop_(loop), write_(std::move(write)), inner_(inner) {}
  /// For requests that begin from now on.
  void set_policy(std::shared_ptr<const auth::AuditPolicy> policy) { policy_ = std::move(policy); }
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  class Audited;
  [[nodiscard]] std::unique_ptr<http::RequestHandler> begin(Request&& request,
                                                            http::ResponseStream& stream);
  net::Loop& loop_;
  Write write_;
  RoutedHandler& inner_;
  std::shared_ptr<const auth::AuditPolicy> policy_;
};

}  // namespace kintsugi::proxy
