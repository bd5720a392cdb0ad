#pragma once

#include <cstdint>
#include <string>

namespace kintsugi::net {

/// Other processes of the same user may listen at our addresses and ports, and the kernel spreads
/// connections over all of them (SO_REUSEPORT): a new process takes over from an old one. Without
/// this a port is one process's: who comes second is told that it is in use (FP-161). Before any
/// listener is opened.
void permit_port_sharing() noexcept;

/// Which ports the listeners of this process have between them. The first listener of a port binds
/// it alone, so that it fails where another process is, and then lets those join that have
/// SO_REUSEPORT too: the other loops' of this process. Threads: any.
class PortClaim {
 public:
  PortClaim() = default;
  ~PortClaim() { release(); }
  PortClaim(const PortClaim&) = delete;
  PortClaim& operator=(const PortClaim&) = delete;

  /// Whether SO_REUSEPORT is set before bind(2): the port is this process's already, or is shared.
  [[nodiscard]] static bool joins(const std::string& address, std::uint16_t port);
  /// The port is bound. Held until release().
  void take(const std::string& address, std::uint16_t port);
  void release() noexcept;

 private:
  std::string key_;  ///< "": none
};

}  // namespace kintsugi::net
