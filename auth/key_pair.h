#pragma once

#include <string>
#include <string_view>

namespace kintsugi::auth {

/// Why a certificate and a private key cannot serve TLS together, in the words of the reference
/// (Go's tls.X509KeyPair); "" when they can. The first certificate counts; keys are RSA, ECDSA or
/// Ed25519 in PKCS #1, PKCS #8 or SEC 1. Threads: any.
/// @param certificates, key  PEM from outside, of any length.
[[nodiscard]] std::string key_pair_fault(std::string_view certificates, std::string_view key);

}  // namespace kintsugi::auth
