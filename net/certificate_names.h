#pragma once

#include <string>
#include <vector>

// OpenSSL's own type, so that its headers stay out of ours.
struct x509_st;

namespace kintsugi::net {

/// DNS names and addresses that a certificate has (subjectAltName), as text that may be shown; at
/// most 16. Threads: any.
[[nodiscard]] std::vector<std::string> certificate_names(x509_st* certificate);

}  // namespace kintsugi::net
