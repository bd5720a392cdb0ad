#pragma once

#include <functional>
#include <memory>

#include "auth/reserved_identity.h"
#include "http/handler.h"

namespace kintsugi::proxy {

/// What is let in of the identities of client certificates: make_proxy_identify, without groups
/// that only the system gives, but for peers (KK-329, SE-052).
/// @param identify  as net::ListenerParams has it
[[nodiscard]] std::function<std::shared_ptr<const void>(const http::PeerInfo&)> at_border(
    std::function<std::shared_ptr<const void>(const http::PeerInfo&)> identify,
    auth::BorderRules rules);

}  // namespace kintsugi::proxy
