#pragma once

#include <string_view>

#include "http/handler.h"

namespace kintsugi::auth {

/// Browsers can give a WebSocket no Authorization header, so its token may come as a subprotocol,
/// `base64url.bearer.authorization.k8s.io.<token>`, next to another one
/// (AM-313). Moves that token into the Authorization header. Does nothing to other requests, when
/// there is an Authorization header, no other subprotocol, or no single token that can be one.
void adopt_web_socket_token(http::RequestHead& head);

/// What the answer echoes: the first subprotocol that is not a token, "" for none.
[[nodiscard]] std::string_view chosen_subprotocol(const http::RequestHead& head) noexcept;

}  // namespace kintsugi::auth
