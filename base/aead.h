#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"

namespace kintsugi {

/// AES in Galois/counter mode (NIST SP 800-38D) by OpenSSL, as Kubernetes' `aesgcm` writes it.
/// Shape of a sealed text: 12 bytes nonce, the cipher text (as long as the plain text), 16 bytes
/// tag. Threads: any. An OpenSSL without the algorithm, without memory or without random numbers
/// ends the process.
inline constexpr std::size_t kGcmNonce = 12;
inline constexpr std::size_t kGcmTag = 16;

/// 16, 24 or 32: what an AES key may have.
[[nodiscard]] bool is_aes_key_size(std::size_t bytes) noexcept;

/// Appends `plain` sealed with a random nonce. At most 2^32 texts may be sealed with one key.
/// @param key  of a size that is_aes_key_size() takes
/// @param associated  is not in the result, but has to be the same when it is opened
void gcm_seal(std::string& out, const Secret& key, std::string_view associated,
              std::string_view plain) noexcept;
/// The same with a nonce of the caller's: for known answers. A nonce that is used twice gives the
/// key's texts away.
void gcm_seal_with_nonce_for_test(std::string& out, const Secret& key, std::string_view nonce,
                                  std::string_view associated, std::string_view plain) noexcept;
/// nullopt: another key, other associated bytes, or not what gcm_seal() made.
[[nodiscard]] std::optional<std::string> gcm_open(const Secret& key, std::string_view associated,
                                                  std::string_view sealed) noexcept;

}  // namespace kintsugi
