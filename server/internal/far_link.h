#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <unordered_map>

#include "base/alive.h"
#include "base/error.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::server {

/// A link between regions on one machine (`kintsugi up --regions-far`): a port of 127.0.0.1 that
/// hands on each byte `delay` after it came, either way. Without a target an HTTP proxy for CONNECT
/// to ports of 127.0.0.1; with one all connections lead there. A connection takes a round trip
/// before its first byte moves, as over the distance. Bound: 4 MiB on their way in each direction
/// of a connection. Source: GR-508. Threads: the loop's.
class FarLink final : private net::FdHandler {
 public:
  struct Params {
    Duration delay = milliseconds(40);  ///< one way
    std::uint16_t target = 0;           ///< 0: what CONNECT names
    /// Of packets of 1,460 bytes, in 1,000: each lost one holds up all that is behind it for a
    /// round trip, as TCP does that sends it again.
    std::uint32_t lost_per_mille = 0;
    std::uint64_t seed = 1;
  };
  /// @error kIo there is no port
  [[nodiscard]] static Expected<std::unique_ptr<FarLink>> open(net::Loop& loop, Params params);
  ~FarLink();
  FarLink(const FarLink&) = delete;
  FarLink& operator=(const FarLink&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }

 private:
  class Connection;
  FarLink(net::Loop& loop, Params params) noexcept;
  void on_ready(bool readable, bool writable) noexcept override;
  void remove(Connection& connection);
  /// What losses cost `bytes` that begin their way now.
  [[nodiscard]] Duration stall_of(std::size_t bytes);

  net::Loop& loop_;
  const Params params_;
  int fd_ = -1;
  std::uint16_t port_ = 0;
  std::mt19937_64 random_{params_.seed};
  std::unordered_map<const Connection*, std::unique_ptr<Connection>> connections_;
  Alive alive_;
};

}  // namespace kintsugi::server
