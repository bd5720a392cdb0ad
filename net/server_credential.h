#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "http/headers.h"
#include "net/tls.h"

namespace kintsugi::net {

/// What a client context says besides its certificate, and by which way. Kept with the context, so
/// that it changes as certificates do, by Upstream::set_tls. Only for contexts of our own requests:
/// a caller's must never have it.
struct ServerCredential {
  Secret authorization = {};      ///< "Bearer …" or "Basic …"; "": none
  http::HeaderList headers = {};  ///< what else every request says: Impersonate-User and its like
  struct Proxy {
    std::string host = {};  ///< "": none
    std::uint16_t port = 0;
    Secret authorization = {};  ///< for it; "": none
  };
  Proxy proxy = {};  ///< an HTTP proxy that makes the connections
  /// Without `proxy` directly, whatever the environment says (proxy_rules.h).
  bool own_way = false;
};

/// Of every request that an Upstream sends with the context, unless it has a header of that name.
/// Threads: any; once, before others have the context.
void set_credential(TlsContext& context, ServerCredential credential);

/// Empty: none. Lives as long as the context.
[[nodiscard]] const ServerCredential& credential_of(const TlsContext& context) noexcept;
[[nodiscard]] inline std::string_view authorization_of(const TlsContext& context) noexcept {
  return credential_of(context).authorization.view();
}

}  // namespace kintsugi::net
