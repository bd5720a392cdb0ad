#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

/// Sockets that whoever starts this process has opened for it and keeps while it is started again,
/// so that nobody is refused meanwhile. Source: sd_listen_fds(3), systemd.socket(5) (OP-211).
namespace kintsugi::net {

/// How many descriptors, from 3 on, LISTEN_PID and LISTEN_FDS say are for this process; 0: none, or
/// for another one.
[[nodiscard]] std::size_t inherited_descriptors() noexcept;

/// Takes them; children inherit neither them nor the variables after this. They stay open as long
/// as this process lives. Main thread, before there are others, once.
/// @error kConfig: one is no TCP socket that listens.
[[nodiscard]] Expected<std::vector<int>> take_inherited_sockets();

/// 0: it is bound to none.
[[nodiscard]] std::uint16_t bound_port(int fd);
/// "127.0.0.1:6443", "[::1]:6443", of a bound socket; "" of what is none.
[[nodiscard]] std::string bound_address(int fd);

}  // namespace kintsugi::net
