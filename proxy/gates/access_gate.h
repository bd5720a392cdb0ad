#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "http/handler.h"
#include "net/loop.h"
#include "proxy/config/config.h"
#include "proxy/routing/request.h"

namespace kintsugi::proxy {

/// The proxy's access log (OP-306): a line at the end of a request; of all that failed, were slow,
/// limited, watches or upgrades, and of a share of the others. Outermost of the gates, so that it
/// sees what each of them answers. A request without an Audit-ID gets one. Threads: its loop. Cost
/// without a log: a comparison.
class AccessGate final : public RoutedHandler {
 public:
  /// Gets a line; must not block.
  using Write = std::function<void(std::string line)>;
  /// @param write  empty: there is no log. @param seed  of the choice. @param inner  answers; must
  /// outlive it.
  AccessGate(net::Loop& loop, Write write, AccessLogConfig config, std::uint64_t seed,
             RoutedHandler& inner)
      : loop_(loop),
        write_(std::move(write)),
        config_(std::move(config)),
        chance_(seed | 1U),
        inner_(inner) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  class Logged;
  /// Whether an ordinary request is one of the share.
  [[nodiscard]] bool is_chosen() noexcept;

  net::Loop& loop_;
  Write write_;
  const AccessLogConfig config_;
  std::uint64_t chance_;  // xorshift64
  RoutedHandler& inner_;
};

}  // namespace kintsugi::proxy
