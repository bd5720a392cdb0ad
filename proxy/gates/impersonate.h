#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "http/handler.h"

/// Callers of plain servers that go as Impersonate-* of the proxy's own credential
/// (FP-149).
namespace kintsugi::proxy {

/// Why a request cannot be sent so: its caller is not known, so that it would go as the proxy
/// itself, or wants to impersonate in turn, which nobody has allowed. nullopt: it can.
[[nodiscard]] std::optional<Error> judge_impersonation(const http::RequestHead& head,
                                                       const http::PeerInfo& peer);

/// Turns the identity that a head was stamped with into an impersonated one. What the client had
/// as Authorization goes. @param token  the proxy's own; "": its certificate tells who it is
void impersonate(http::HeaderList& headers, std::string_view token);

}  // namespace kintsugi::proxy
