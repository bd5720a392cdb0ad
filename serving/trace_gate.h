#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/trace_context.h"
#include "http/handler.h"

namespace kintsugi::serving {

/// Which requests are recorded (OP-502).
struct TraceRules {
  std::uint32_t per_million = 0;  ///< of traces, by their ids
  /// Members may say by `sampled` in their traceparent that theirs is.
  std::vector<std::string> trusted_groups{"system:masters", "system:kcp:admin"};
  /// Servers may tell by X-Remote-Group who asks them, where the certificate lets the caller.
  bool takes_asserted = false;
  bool operator==(const TraceRules&) const = default;
};

/// `tracing` of a configuration.
struct TracingConfig {
  std::string endpoint;  ///< TraceParams; "": nothing is collected
  std::string ca_file, headers_file;
  TraceRules rules;
  bool operator==(const TracingConfig&) const = default;
};

/// In front of all that a process serves: a span of each request that is recorded, whose parent is
/// what the caller's traceparent says, and that is the parent of all that is asked for it. Of a
/// watch it ends with the head of its answer. Only where spans are collected: without, there is no
/// such gate. Threads: its loop.
class TraceGate final : public http::Handler {
 public:
  /// @param inner  answers; must outlive it.
  TraceGate(TraceRules rules, http::Handler& inner) : rules_(std::move(rules)), inner_(inner) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

 private:
  class Recorded;
  [[nodiscard]] bool is_trusted(const http::RequestHead& head, const http::PeerInfo& peer) const;

  const TraceRules rules_;
  http::Handler& inner_;
};

}  // namespace kintsugi::serving
