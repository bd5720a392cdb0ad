#include "apiserver/internal/digest.h"

#include "base/digest.h"
#include "base/strings.h"

namespace kintsugi::apiserver::internal {

std::string sha256(std::string_view text) {
  const auto digest = kintsugi::sha256(text);
  return {digest.begin(), digest.end()};
}

std::string sha256_hex(std::string_view text) { return hex_encode(sha256(text)); }

}  // namespace kintsugi::apiserver::internal
