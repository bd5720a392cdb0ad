#pragma once

#include <memory>
#include <string>

#include "base/secret.h"
#include "http/session.h"

namespace kintsugi::http {

/// An HTTP/1.1 client whose other end is a proxy that forwards requests to one server (RFC 9112,
/// section 3.2.2).
struct ForwardingProxy {
  std::string authority;  ///< of the server, "host" or "host:port"; Host, whatever a request says
  Secret authorization = {};  ///< Proxy-Authorization of every request; "": none
};
[[nodiscard]] std::unique_ptr<ClientSession> make_forwarding_client(SessionHost& host,
                                                                    const SessionLimits& limits,
                                                                    ForwardingProxy proxy);

}  // namespace kintsugi::http
