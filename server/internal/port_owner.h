#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kintsugi::server {

/// Who listens at a port of this machine.
struct PortOwner {
  /// The first process that has the socket; 0: one whose descriptors this user may not see.
  pid_t process = 0;
  uid_t user = 0;  ///< whose the socket is
};

/// By /proc/net/tcp and tcp6, and the descriptors of processes. Blocks: for commands that look
/// once.
/// @param address  an IP address; sockets of all addresses count as well
/// @param root  prefix of /proc, for tests
[[nodiscard]] std::optional<PortOwner> port_owner(const std::string& address, std::uint16_t port,
                                                  const std::string& root = {});

}  // namespace kintsugi::server
