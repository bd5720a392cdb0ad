#pragma once

#include <cstdint>
#include <string>

#include "net/upstream.h"

namespace kintsugi::net {

/// What spans of its requests call the server, a shard by its name (OP-503). Without, it has none.
/// @param upstream  of Upstream::make()
void name_peer(Upstream& upstream, std::string name);

/// When the certificate ends that the server showed last [s since 1970]; 0: it has shown none.
/// @param upstream  the same
[[nodiscard]] std::int64_t peer_certificate_end(const Upstream& upstream) noexcept;

}  // namespace kintsugi::net
