#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/headers.h"

/// Pure helpers that both protocol engines need. Threads: any.
namespace kintsugi::http {

struct RequestHead;

/// "Not Found" for 404, "" for codes without a registered phrase. Source: RFC 9110, section 15.
[[nodiscard]] std::string_view status_reason(int status) noexcept;

/// Connection, Keep-Alive, Proxy-Connection, TE, Transfer-Encoding, Upgrade: fields that belong to
/// one hop and that engines never send on. `name` in lower case. Source: RFC 9110, section 7.6.1.
[[nodiscard]] bool is_hop_by_hop(std::string_view name) noexcept;

/// GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS; case counts (SE-116).
[[nodiscard]] bool is_known_method(std::string_view method) noexcept;
/// 1..n token characters (methods, field names). Source: RFC 9110, section 5.6.2.
[[nodiscard]] bool is_token(std::string_view text) noexcept;
/// HTAB, visible ASCII, space and bytes from 0x80; never CR, LF, NUL. Empty is fine.
[[nodiscard]] bool is_field_value(std::string_view text) noexcept;
/// 1..n visible ASCII characters: what may stand in a request line as target.
[[nodiscard]] bool is_target(std::string_view text) noexcept;
/// Host and port: a name of [A-Za-z0-9._~-], an IPv4 address or an IPv6 address in brackets, of 1
/// to 253 characters; the port, if there is one, from 1 to 65535. No user info. Source: RFC 3986,
/// section 3.2, of which SE-115 leaves over what names servers.
[[nodiscard]] bool is_authority(std::string_view text) noexcept;
/// What keeps a client from sending this request, whatever connection it gets: "malformed method",
/// "malformed request target", "malformed authority" or "malformed protocol"; "": nothing. An empty
/// authority is fine. Cost: one look at each byte of these, none at the fields.
[[nodiscard]] std::string_view request_fault(const RequestHead& head) noexcept;

/// True when a comma-separated list holds `lower_case_token`, compared without case ("keep-alive,
/// Upgrade").
[[nodiscard]] bool list_contains(std::string_view list, std::string_view lower_case_token) noexcept;

/// Now as in a Date field, "Sun, 06 Nov 1994 08:49:37 GMT". Valid until the next call on this
/// thread. Source: RFC 9110, section 5.6.7. Cost: one look at the coarse clock; the text is made
/// once a second.
[[nodiscard]] std::string_view http_date() noexcept;

/// A Kubernetes Status as JSON, for requests that fail before a handler exists (400, 408, 431,
/// ...). `message` is plain ASCII text of ours.
[[nodiscard]] std::string status_body(int code, std::string_view message);

}  // namespace kintsugi::http
