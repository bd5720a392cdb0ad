#include "auth/certificate_cache.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/sha256.h"

namespace kintsugi::auth {
namespace {

/// DER says its own length, so a chain is unambiguous without separators.
std::string digest_of(const std::vector<std::string>& chain_der) {
  std::string text;
  for (const std::string& der : chain_der) {
    text += der;
  }
  const auto digest = sha256(text);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

CertificateIdentity CertificateCache::identify(const std::vector<std::string>& chain_der,
                                               std::optional<std::int64_t> now) {
  if (auto current = verifier_->current(); current != asked_) {
    asked_ = std::move(current);
    known_.clear();
  }
  const std::int64_t at = now.value_or(std::time(nullptr));
  std::string key = digest_of(chain_der);
  if (const auto found = known_.find(key); found != known_.end()) {
    if (at >= found->second.from && at < found->second.until) {
      return found->second.identity;
    }
    known_.erase(found);
  }
  std::int64_t until = 0;
  CertificateIdentity identity = asked_->identify(chain_der, at, &until);
  if (identity.valid) {
    if (known_.size() >= kMost) {
      known_.clear();
    }
    known_.emplace(std::move(key), Answer{identity, at, std::min(until, at + kLongest)});
  }
  return identity;
}

}  // namespace kintsugi::auth
