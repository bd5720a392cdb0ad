#pragma once

#include <memory>
#include <string>

#include "auth/authenticators.h"
#include "auth/issuer_tokens.h"
#include "net/loop.h"
#include "proxy/config/config.h"
#include "proxy/gates/account_check.h"
#include "proxy/gates/token_gate.h"
#include "proxy/gates/token_webhook.h"
#include "proxy/gates/workspace_issuers.h"
#include "topology/snapshot.h"

namespace kintsugi::server {

/// What the files of section `authentication` hold, for all loops.
struct TokenFiles {
  std::shared_ptr<auth::TokenFile> file;  ///< null: none
  auth::JwtKeys account_keys;             ///< none: ServiceAccount tokens are not looked at
  auth::JwtIssuers issuers;
  bool has_webhook = false;
  proxy::TokenWebhookConfig webhook;
};
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<TokenFiles> load_token_files(const proxy::AuthenticationConfig& config);

/// The methods of one loop, made of them. Threads: its loop, and before it runs the one that makes
/// it.
class ProxyTokens {
 public:
  /// @param find  where reviews of a logical cluster are asked.
  /// @param outgoing  where issuers of workspaces may be; null: the defaults.
  ProxyTokens(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
              proxy::FindReviewTarget find,
              std::shared_ptr<const net::OutgoingPolicy> outgoing = nullptr);
  /// Takes what is configured now. The old methods go at the end of the turn.
  void take(const proxy::AuthenticationConfig& config, const TokenFiles& files,
            proxy::TokenGate& gate);
  /// Of workspace types, with `authentication.workspaces`.
  void set_workspace_issuers(proxy::WorkspaceIssuersPtr issuers);

 private:
  net::Loop& loop_;
  proxy::AccountCheck accounts_;
  std::shared_ptr<topology::SnapshotView> view_;
  std::shared_ptr<const net::OutgoingPolicy> outgoing_;  ///< where issuers of tenants may be
  std::shared_ptr<proxy::WorkspaceTokens> workspaces_;   ///< null: not looked at
  auth::JwtIssuers known_issuers_;
  std::shared_ptr<auth::IssuerTokens> issuers_;  ///< with the keys that it has
};

}  // namespace kintsugi::server
