#pragma once

#include <string>

#include "base/error.h"

/// What every process of this program says of itself.
namespace kintsugi::server {

/// One line "kintsugi <command>: <text>" on stderr; returns `status`.
int complain(const std::string& command, const std::string& text, int status = 1);
int complain(const std::string& command, const Error& error, int status = 1);

/// Raises the soft limit of descriptors to the hard one: 1,024, which shells and services begin
/// with for the sake of select(2), is no bound of a server's. Before limits are made.
void raise_descriptor_limit() noexcept;
/// A line of the log with the limit, and the soft one that the process began with; a warning where
/// it is below 4,096, as a server of many needs more (OP-206).
void tell_descriptor_limit();

/// Asks the kernel to let this thread, and those that it makes, take turns with others on their CPU
/// after 0.1 ms instead of some milliseconds: a proxy and a shard that share one would else wait so
/// long for each other at every request while there is much to do (SE-005). Linux 6.12 and later;
/// nothing changes with others.
void take_short_turns() noexcept;

}  // namespace kintsugi::server
