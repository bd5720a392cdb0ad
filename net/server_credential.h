#pragma once

#include <string>
#include <string_view>

#include "net/tls.h"

namespace kintsugi::net {

/// What a client context says besides its certificate: the Authorization header of every request
/// that an Upstream sends with it, unless the request has one. Kept with the context, so that it
/// changes as certificates do, by Upstream::set_tls. Only for contexts of our own requests: a
/// caller's must never have it. Threads: any; once, before others have the context.
/// @param value  of the header, "Bearer …" or "Basic …"
void set_authorization(TlsContext& context, std::string value);

/// "": none. Lives as long as the context.
[[nodiscard]] std::string_view authorization_of(const TlsContext& context) noexcept;

}  // namespace kintsugi::net
