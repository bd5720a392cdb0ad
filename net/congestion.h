#pragma once

#include <string>

#include "base/error.h"
#include "base/time.h"

namespace kintsugi::net {

/// A peer whose round trip is longer is far; what distance needs is done for nobody else.
inline constexpr Duration kFar = milliseconds(20);

/// How the TCP connections of this process that are made from now on find their rate
/// (`net.congestion`): "auto": those to and from far peers by BBR, where the kernel has it, the
/// others as the kernel does; "system": all as the kernel does; another word: all by that algorithm
/// of the kernel. Source: GR-507. Threads: any; "auto" before the first call.
/// @error kConfig the kernel does not have it, or not for us
[[nodiscard]] Expected<void> use_congestion(const std::string& name);

/// A TCP connection is there: it gets what use_congestion() says. Cost: a system call.
void suit_congestion(int fd) noexcept;
/// The same of a peer so far away.
void suit_congestion(int fd, Duration round_trip) noexcept;

/// What the kernel has measured of a TCP connection; zero: nothing, or it is none.
[[nodiscard]] Duration kernel_round_trip(int fd) noexcept;

/// The algorithm of a TCP connection; "": it is none.
[[nodiscard]] std::string congestion_of(int fd);

}  // namespace kintsugi::net
