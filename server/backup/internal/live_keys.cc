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

bool LiveKeys::has(std::string_view key) const {
  return std::binary_search(digests_.begin(), digests_.end(), digest_of(key));
}

}  // namespace kintsugi::server
