#pragma once

#include <cstdint>
#include <string>
#include <vector>

// OpenSSL's own type, so that its headers stay out of ours.
struct x509_st;

namespace kintsugi::net {

/// DNS names and addresses that a certificate has (subjectAltName), as text that may be shown; at
/// most 16. Threads: any.
[[nodiscard]] std::vector<std::string> certificate_names(x509_st* certificate);

/// When it ends [s since 1970]; 0: it cannot be told. Threads: any.
[[nodiscard]] std::int64_t certificate_end(const x509_st* certificate) noexcept;

}  // namespace kintsugi::net
