#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <unordered_map>

#include "http/handler.h"
#include "proxy/routing/request.h"

namespace kintsugi::proxy {

/// Spreads clients over replicas again: a random share of requests is the last of its HTTP/2
/// connection, which ends in order. Connections with a watch or a tunnel are left alone.
/// Threads: its loop. Cost with chance 0: a comparison.
class GoawayHandler final : public RoutedHandler {
 public:
  /// @param chance 0 to 1; 0: never. @param inner answers; must outlive it.
  GoawayHandler(double chance, RoutedHandler& inner, std::uint64_t seed);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;
  /// Connections that were told to go.
  [[nodiscard]] std::uint64_t told() const noexcept { return told_; }

 private:
  class LongRequest;
  RoutedHandler& inner_;
  double chance_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> dice_{0, 1};
  std::unordered_map<const http::PeerInfo*, std::size_t> long_;  ///< by connection
  std::uint64_t told_ = 0;
};

}  // namespace kintsugi::proxy
