#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "auth/authenticators.h"
#include "auth/request_header.h"
#include "auth/reserved_identity.h"
#include "auth/token_proofs.h"
#include "http/handler.h"
#include "net/loop.h"
#include "proxy/gates/workspace_issuers.h"
#include "proxy/routing/request.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Identities that a connection does not have: bearer tokens, and what proxies in front of this one
/// assert. Stands before the ProxyHandler, which sees the identity as if
/// the connection had it, and answers what does not hold in its own order: an unknown cluster with
/// a bad token is E1. A token that made an identity is not forwarded. Threads: its loop. Cost with
/// a client certificate, or without anything configured: a comparison.
class TokenGate final : public RoutedHandler {
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
  TokenGate(std::shared_ptr<topology::SnapshotView> view, RoutedHandler& inner);
  ~TokenGate();
  /// For requests that begin from now on; tokens of those that run are judged again.
  void set_methods(Methods methods);
  /// What workspaces say of issuers has changed: the same.
  void judge_again();
  /// From now on the tokens of requests that go on are looked after (SE-045). A minute after one
  /// has ended, what still runs with it is cut.
  /// @param ended called when some have ended.
  void follow_proofs(net::Loop& loop, std::function<void()> ended);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  class KnownRequest;
  /// Requests with a token, or whose caller another proxy told, the oldest first.
  struct Followed {
    explicit Followed(net::Loop& l) : loop(l), timer(l) {}
    net::Loop& loop;
    std::unique_ptr<auth::TokenProofs> proofs;
    std::function<void()> ended;
    KnownRequest* first = nullptr;
    KnownRequest* last = nullptr;
    net::Timer timer;
    bool armed = false;
  };
  void look();
  void arm();
  void ask(std::string_view token, const std::string& cluster, auth::TokenProofs::Done done);
  [[nodiscard]] bool concerns(const Request& request, const http::PeerInfo& peer) const;
  [[nodiscard]] std::unique_ptr<http::RequestHandler> begin(Request&& request,
                                                            http::ResponseStream& stream);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> identify(Request&& request,
                                                               http::ResponseStream& stream);
  /// @param cluster  gets the logical cluster that the request is for, where it has to be known
  [[nodiscard]] bool concerns_workspace(Request& request, const http::PeerInfo& peer,
                                        std::optional<std::string>& cluster) const;

  std::shared_ptr<topology::SnapshotView> view_;
  RoutedHandler& inner_;
  Methods methods_;
  std::unique_ptr<Followed> followed_;  ///< null: nobody wants to know
};

}  // namespace kintsugi::proxy
