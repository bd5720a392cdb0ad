#pragma once

#include <cstdint>
#include <string_view>

#include "auth/sealed_token.h"
#include "base/error.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// Keys of continue tokens, kept in the shard's store so that lists go on after a restart. The one
/// that seals is made anew at a start when it is a week old; the one before it still opens tokens.
/// Written before anything is sealed. Blocks; for the start. Of processes that start at once one
/// makes them.
/// @param now  [s since 1970]
/// @error of the store; kCorrupt what stands there cannot be read
[[nodiscard]] Expected<auth::TokenKeys> read_token_keys(store::Store& store, std::int64_t now);

/// Where they are; another process on the same store may make them anew.
inline constexpr std::string_view kTokenKeysRow = "kintsugi.shard/token-keys";
/// Those that stand there. @error kNotFound; as above
[[nodiscard]] Expected<auth::TokenKeys> known_token_keys(const store::Store& store);

}  // namespace kintsugi::controlplane
