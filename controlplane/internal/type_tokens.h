#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "auth/configured_issuers.h"
#include "controlplane/controllers/workspace_types.h"
#include "net/outgoing.h"

namespace kintsugi::controlplane {

/// Tokens of the issuers that the type of a logical cluster names (KK-120), for TokenReviews in
/// that cluster; requests with such a token come by the proxy. The type's
/// WorkspaceAuthenticationConfi- gurations are read where the type is: here, or as a copy of
/// another shard's. Each is compiled once per version. Threads: one loop.
class TypeTokens final : public auth::TokenAuthenticator {
 public:
  /// What it asks; all outlive it.
  struct Params {
    const WorkspaceTypeLookup& types;
    std::function<const apiserver::ObjectReader&()> reader;
    /// Logical clusters of this shard: what other shards say of them does not count.
    std::function<bool(std::string_view cluster)> is_here;
    /// Of the server: what a token is for that names no other audience.
    std::vector<std::string> audiences;
    std::shared_ptr<net::Outgoing> outgoing;  ///< how keys are fetched
  };
  TypeTokens(net::Loop& loop, Params params);
  /// Before what gets the answers goes: who still waits is told kUnavailable.
  void stop();

  /// nullopt: of none of these issuers, or none of `audiences` is the server's.
  void authenticate_token(const auth::BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;

 private:
  struct Known {
    std::string version;  ///< uid and resourceVersion
    std::shared_ptr<const auth::JwtIssuers> issuers;
  };
  [[nodiscard]] std::shared_ptr<const auth::JwtIssuers> issuers_of(const std::string& cluster,
                                                                   const std::string& name);

  Params params_;
  StringMap<Known> known_;  // by "<cluster>/<name>"
  auth::ConfiguredIssuers issuers_;
};

}  // namespace kintsugi::controlplane
