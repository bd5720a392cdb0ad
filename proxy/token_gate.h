#pragma once

#include <memory>

#include "auth/authenticators.h"
#include "auth/request_header.h"
#include "auth/reserved_identity.h"
#include "http/handler.h"
#include "proxy/workspace_issuers.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Identities that a connection does not have: bearer tokens, and what proxies in front of this one
/// assert (specs/front-proxy.md 9.1). Stands before the ProxyHandler, which sees the identity as if
/// the connection had it, and answers what does not hold in its own order: an unknown cluster with
/// a bad token is E1. A token that made an identity is not forwarded. Threads: its loop. Cost with
/// a client certificate, or without anything configured: a comparison.
class TokenGate final : public http::Handler {
 public:
  struct Methods {
    std::shared_ptr<auth::RequestAuthenticator> authenticator;  ///< null: none are configured
    bool tokens = false;                                        ///< bearer tokens are looked at
    bool must_have = false;         ///< requests without credentials get E5
    bool request_header = false;    ///< other proxies may assert identities
    auth::BorderRules border = {};  ///< what they may assert
    /// Issuers of workspace types; null: they are not looked at.
    std::shared_ptr<WorkspaceTokens> workspaces = {};
    /// For workspaces with such issuers, instead: their tokens too, and somebody has to be named.
    std::shared_ptr<auth::RequestAuthenticator> in_workspaces = {};
  };
  /// @param inner answers; must outlive it.
  TokenGate(std::shared_ptr<topology::SnapshotView> view, http::Handler& inner);
  /// For requests that begin from now on.
  void set_methods(Methods methods) { methods_ = std::move(methods); }
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

 private:
  [[nodiscard]] bool concerns(const http::RequestHead& head, const http::PeerInfo& peer) const;
  [[nodiscard]] std::unique_ptr<http::RequestHandler> identify(http::RequestHead head,
                                                               http::ResponseStream& stream);
  [[nodiscard]] bool concerns_workspace(const http::RequestHead& head,
                                        const http::PeerInfo& peer) const;

  std::shared_ptr<topology::SnapshotView> view_;
  http::Handler& inner_;
  Methods methods_;
};

}  // namespace kintsugi::proxy
