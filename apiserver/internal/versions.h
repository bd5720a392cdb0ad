#pragma once

#include "base/error.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

/// AM-029. kFutureRevision with the words that clients look for.
[[nodiscard]] Error version_too_large(store::Revision asked, store::Revision current);

/// AM-028: `too old resource version: 10 (517)`.
[[nodiscard]] Error version_too_old(store::Revision asked, store::Revision oldest);

}  // namespace kintsugi::apiserver::internal
