#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::topology {

/// Several servers that answer alike, as one (FP-154). Requests begin at one
/// after another of them. One that fails before it answers is not asked for `pause`, unless all
/// are so; a request without a body goes on to the next, others have one attempt.
/// Threads: its loop's.
class Peers final : public net::Upstream {
 public:
  struct Params {
    std::vector<net::UpstreamParams> servers;  ///< at least one
    Duration pause = seconds(30);
    /// A request got this status, or (0) all that were asked for it failed. May be empty; must not
    /// destroy the peers.
    std::function<void(int status)> on_answer = {};
  };
  Peers(net::Loop& loop, Params params);
  ~Peers() override;

  [[nodiscard]] http::RequestStream& open(net::UpstreamClass kind, const http::RequestHead& head,
                                          http::ResponseHandler& handler) override;
  [[nodiscard]] net::UpstreamStats stats(net::UpstreamClass kind) const noexcept override;
  /// Of the first.
  [[nodiscard]] const net::UpstreamParams& params() const noexcept override;
  void set_tls(std::shared_ptr<net::TlsContext> tls) noexcept override;
  /// One for each, in their order.
  void set_tls_of_each(const std::vector<std::shared_ptr<net::TlsContext>>& tls) noexcept;
  void retry_now() noexcept override;
  /// To the farthest.
  [[nodiscard]] Duration round_trip() const noexcept override;
  [[nodiscard]] std::uint32_t failures_in_a_row() const noexcept override;
  [[nodiscard]] const std::string& last_failure() const noexcept override;

 private:
  class Attempts;
  struct Peer {
    std::unique_ptr<net::Upstream> upstream;
    TimePoint failed_at{};
    bool failed = false;
  };
  /// Whom to ask, in this order.
  [[nodiscard]] std::vector<std::size_t> next_order();
  void tell(int status);

  net::Loop& loop_;
  Params params_;
  std::vector<Peer> peers_;
  std::size_t next_ = 0;
  std::size_t last_failed_ = 0;
  std::uint32_t failures_ = 0;  ///< requests in a row that nobody answered
  std::vector<std::unique_ptr<Attempts>> running_;
};

}  // namespace kintsugi::topology
