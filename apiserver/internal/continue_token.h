#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "auth/sealed_token.h"
#include "base/error.h"

namespace kintsugi::apiserver::internal {

struct ListOptions;
struct Request;

/// Where a list goes on (AM-276 to AM-284): revision and position, sealed, and good for the same
/// list of the same caller only (SE-166).
struct ContinueToken {
  std::int64_t revision = 0;  ///< -1: go on with the present state
  std::string start;          ///< position_of() the first key that may come, with a NUL at its end
  std::int64_t following = -1;  ///< objects that there are from `start` on; -1: not known

  /// @param bound  what it is good for: bound_list()
  [[nodiscard]] std::string encode(const auth::TokenKeys& keys, std::string_view bound) const;
  /// @error kBadRequest `invalid continue token: continue key is not valid: …`; kExpired sealed
  /// with
  ///        a key that is not here any more
  [[nodiscard]] static Expected<ContinueToken> decode(std::string_view text,
                                                      const auth::TokenKeys& keys,
                                                      std::string_view bound);
  /// What can be said of a text without keys. @error kBadRequest as decode()
  [[nodiscard]] static Expected<void> check(std::string_view text);
};

/// Who asks, never for whom he speaks, and for which objects.
[[nodiscard]] std::string bound_list(const Request& request, std::string_view ns,
                                     const ListOptions& options);

/// Made when the process asks for it first.
[[nodiscard]] const auth::TokenKeys& keys_of_process();

}  // namespace kintsugi::apiserver::internal
