#pragma once

#include <cstdint>

#include "auth/sealed_token.h"
#include "base/error.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// Keys of continue tokens, kept in the shard's store so that lists go on after a restart. The one
/// that seals is made anew at a start when it is a week old; the one before it still opens tokens.
/// Written before anything is sealed. Blocks; for the start.
/// @param now  [s since 1970]
/// @error of the store; kCorrupt what stands there cannot be read
[[nodiscard]] Expected<auth::TokenKeys> read_token_keys(store::Store& store, std::int64_t now);

}  // namespace kintsugi::controlplane
