#pragma once

#include <string>

/// What every process of this program says of itself.
namespace kintsugi::server {

/// One line "kintsugi <command>: <text>" on stderr; returns `status`.
int complain(const std::string& command, const std::string& text, int status = 1);

/// Raises the soft limit of descriptors to the hard one: 1,024, which shells and services begin
/// with for the sake of select(2), is no bound of a server's. Before limits are made.
void raise_descriptor_limit() noexcept;

}  // namespace kintsugi::server
