#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kintsugi::apiserver::internal {

/// Where a list goes on (AM-276 to AM-284): base64url of
/// {"v":"meta.k8s.io/v1","rv":517,"start":"lc/t1/b\u0000"}. Binds revision and position, not the
/// resource.
struct ContinueToken {
  std::int64_t revision = 0;  ///< -1: go on with the present state
  std::string start;          ///< position_of() the first key that may come, with a NUL at its end

  [[nodiscard]] std::string encode() const;
  /// @error kBadRequest `invalid continue token: continue key is not valid: …`
  [[nodiscard]] static Expected<ContinueToken> decode(std::string_view text);
};

}  // namespace kintsugi::apiserver::internal
