#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kintsugi {

/// A host as URLs have it: an IPv6 address in brackets, all else as it is (RFC 3986, 3.2.2).
/// @param host  without brackets
[[nodiscard]] std::string url_host(std::string_view host);
/// "<url_host>:<port>"
[[nodiscard]] std::string host_port(std::string_view host, std::uint16_t port);

}  // namespace kintsugi
