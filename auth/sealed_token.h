#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/secret.h"

/// Tokens that clients bring back unchanged, say nothing to them, and are good where they were
/// given out only: continue tokens of lists. Source: SE-166. Pure functions, any thread.
namespace kintsugi::auth {

/// A secret of any length; tokens are sealed with the key that is derived from it.
struct TokenKey {
  TokenKey(std::uint8_t number, Secret text);
  std::uint8_t id;
  Secret secret;
  Secret sealing;  ///< derived from it
};
/// Tokens are sealed with the first, and open with each.
using TokenKeys = std::vector<TokenKey>;

/// Of parts the one text that no other parts have.
[[nodiscard]] std::string bound_to(std::initializer_list<std::string_view> parts);

/// @param bound  has to be the same when the token is opened; is not in it
/// @returns base64url of a version, the key's id and AES-256-GCM of `plain`: 30 bytes more
[[nodiscard]] std::string seal_token(std::string_view plain, std::string_view bound,
                                     const TokenKey& key);

enum class TokenFault : std::uint8_t {
  kUndecodable,  ///< no token of this kind
  kForeign,      ///< changed, or given out for something else
  kOldKey,       ///< sealed with a key that is not known (any more)
};
[[nodiscard]] tl::expected<std::string, TokenFault> open_token(std::string_view text,
                                                               std::string_view bound,
                                                               const TokenKeys& keys);

}  // namespace kintsugi::auth
