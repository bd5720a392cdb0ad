#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "net/connection_book.h"
#include "serving/fair_queues.h"
#include "serving/request_limits.h"

namespace kintsugi::serving {

/// What one payer may have open for long (SE-085, SE-086, SE-088). 0: no bound.
struct PayerBounds {
  std::uint32_t watches = 0;
  std::uint32_t watches_per_resource = 0;  ///< of one resource of one logical cluster
  std::uint32_t merged_reads = 0;
  std::uint32_t merged_streams = 0;  ///< to shards, of his merged reads
  std::uint32_t tunnels = 0;         ///< exec, attach, port-forward, proxy
  bool operator==(const PayerBounds&) const = default;

  /// Those of the rows, by the machine's cores.
  [[nodiscard]] static PayerBounds usual() noexcept;
  /// What is 0 is as in `other`.
  [[nodiscard]] PayerBounds or_else(const PayerBounds& other) const noexcept;
  [[nodiscard]] RequestLimits rules() const noexcept;
};

/// What a process lets clients have open, as somebody says it. 0: nothing is said.
struct OpenLimits {
  PayerBounds payers;
  std::uint32_t connections = 0, connections_per_address = 0, connections_per_user = 0;
  bool operator==(const OpenLimits&) const = default;
  /// The member of a key of section `limits` ("watches_per_user"); nullptr: there is none.
  [[nodiscard]] std::uint32_t* member(std::string_view key) noexcept;
  /// All keys.
  static constexpr std::array<std::string_view, 8> kKeys{"connections",
                                                         "connections_per_address",
                                                         "connections_per_user",
                                                         "watches_per_user",
                                                         "watches_per_resource",
                                                         "merged_per_user",
                                                         "merged_streams_per_user",
                                                         "tunnels_per_user"};
  [[nodiscard]] net::ConnectionLimits of_connections() const noexcept;
};

/// Servers and operators of the installation have what they need.
[[nodiscard]] constexpr bool is_bounded(Level level) noexcept {
  return level == Level::kTenant || level == Level::kUnknown;
}

/// Charges a watch to its payer.
/// @param limiter  made of PayerBounds::rules()
/// @param what  cluster and resource: the path of the target
/// @error kTooManyRequests
[[nodiscard]] Expected<void> admit_watch(RequestLimiter& limiter, RequestLimiter::Pass& pass,
                                         std::string_view payer, std::string_view what,
                                         TimePoint now);
/// Charges a merged read and the streams that it takes.
[[nodiscard]] Expected<void> admit_merged(RequestLimiter& limiter, RequestLimiter::Pass& pass,
                                          std::string_view payer, std::uint32_t streams,
                                          TimePoint now) noexcept;
/// Charges a tunnel.
[[nodiscard]] Expected<void> admit_tunnel(RequestLimiter& limiter, RequestLimiter::Pass& pass,
                                          std::string_view payer, TimePoint now) noexcept;

}  // namespace kintsugi::serving
