#pragma once

#include "auth/authorizer.h"

namespace kintsugi::proxy {

/// Permissions in an installation whose Shards the proxy stores (source `objects`): before the
/// first Shard is made there is nobody to ask, so members of system:kcp:admin may do everything
/// that the proxy serves in root. All other questions go on. Threads: one loop.
class OwnRootAuthorizer final : public auth::Authorizer {
 public:
  /// @param next must outlive it.
  explicit OwnRootAuthorizer(auth::Authorizer& next) : next_(next) {}
  void authorize(const auth::Attributes& attributes, Done done) override;

 private:
  auth::Authorizer& next_;
};

}  // namespace kintsugi::proxy
