#include "server/backup/internal/live_keys.h"

#include <algorithm>
#include <cstring>

#include "base/digest.h"

namespace kintsugi::server {

LiveKeys::Digest LiveKeys::digest_of(std::string_view key) {
  const auto whole = sha256(key);
  Digest out{};
  std::memcpy(out.data(), whole.data(), out.size());
  return out;
}

void LiveKeys::sort() { std::sort(digests_.begin(), digests_.end()); }

std::optional<std::size_t> LiveKeys::index_of(std::string_view key) const {
  const Digest digest = digest_of(key);
  const auto at = std::lower_bound(digests_.begin(), digests_.end(), digest);
  return at != digests_.end() && *at == digest
             ? std::optional(static_cast<std::size_t>(at - digests_.begin()))
             : std::nullopt;
}

}  // namespace kintsugi::server
