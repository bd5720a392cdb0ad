#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kintsugi::krm {

/// Formats of strings in structural schemas (AM-393): bsonobjectid, uri,
/// email, hostname, ipv4, ipv6, cidr, mac, uuid, uuid3, uuid4, uuid5, isbn, isbn10, isbn13,
/// creditcard, ssn, hexcolor, rgbcolor, byte, password, date, duration, date-time, k8s-short-name,
/// k8s-long-name. Dashes in a format's name do not count.
[[nodiscard]] bool is_known_format(std::string_view format);

/// False when the format is known and the text is not of it. Cost: O(text). Threads: any.
[[nodiscard]] bool matches_format(std::string_view format, std::string_view text);

/// `duration` that Go's time.ParseDuration does not take: numbers with units anywhere in the text,
/// "3 days and 4 hours", in nanoseconds. None when there is no known unit.
[[nodiscard]] std::optional<std::int64_t> worded_duration(std::string_view text);

/// `uri`: what Go's url.ParseRequestURI takes, an absolute path or a scheme with something behind
/// it.
[[nodiscard]] bool is_request_uri(std::string_view text);

}  // namespace kintsugi::krm
