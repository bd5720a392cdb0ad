#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "auth/configured_issuers.h"
#include "base/alive.h"
#include "net/loop.h"
#include "topology/feed.h"
#include "topology/snapshot.h"

/// Authentication by type of workspace.
namespace kintsugi::proxy {

/// What the shards' WorkspaceTypes and WorkspaceAuthenticationConfigurations say. Immutable once
/// published.
struct WorkspaceIssuers {
  /// "<shard> <cluster> <name>"; an object counts only where its cluster lives.
  using Key = std::string;
  std::map<Key, std::vector<std::string>, std::less<>> types;  ///< names of configurations
  std::map<Key, std::shared_ptr<const auth::JwtIssuers>, std::less<>> configurations;
  std::set<topology::ShardId> synced;  ///< shards that have told all of theirs
  [[nodiscard]] static Key key(topology::ShardId shard, std::string_view cluster,
                               std::string_view name);
};
using WorkspaceIssuersPtr = std::shared_ptr<const WorkspaceIssuers>;

/// Keeps them, from the topology feed; a configuration that is wrong is a log line and counts as
/// none. Threads: the control loop's.
class WorkspaceIssuerBook final : public topology::FeedListener {
 public:
  /// @param publish  gets every state, changes that come together as one.
  WorkspaceIssuerBook(net::Loop& loop, topology::Feed& feed,
                      std::function<void(WorkspaceIssuersPtr)> publish);
  ~WorkspaceIssuerBook();
  void on_change(const topology::ShardChanged& change) override;
  void on_change(const topology::WorkspaceTypeChanged& change) override;
  void on_change(const topology::WorkspaceAuthenticationChanged& change) override;
  void on_change(const topology::AuthenticationSynced& change) override;

 private:
  void touched();

  topology::Feed& feed_;
  std::function<void(WorkspaceIssuersPtr)> publish_;
  WorkspaceIssuers now_;
  net::Timer timer_;
  bool pending_ = false;
};

/// Tokens of the issuers that the type of the request's workspace names. Their users are bound to
/// that workspace: `system:` names are refused, such groups and kcp's own extras dropped, scope and
/// cluster name added. Keys are fetched with the first token. Threads: its loop.
class WorkspaceTokens final : public auth::TokenAuthenticator {
 public:
  /// @param patience  of a token whose workspace's issuers are not known yet, as just after a start
  /// @param policy  where issuers may be; null: the defaults (net/outgoing.h)
  WorkspaceTokens(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
                  Duration patience = seconds(2),
                  const std::shared_ptr<const net::OutgoingPolicy>& policy = nullptr);
  /// Whoever still waits is told kUnavailable.
  ~WorkspaceTokens() override;
  void set_issuers(WorkspaceIssuersPtr issuers);
  /// The workspace has issuers of its own; of a request with a token also: that cannot be told yet.
  [[nodiscard]] bool concern(std::string_view cluster, bool has_token) const;
  /// @error kUnavailable not known within the patience, or keys that were never fetched.
  void authenticate_token(const auth::BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;

 private:
  struct Found {
    bool known = true;
    std::vector<std::string> keys;  ///< of configurations
  };
  struct Waiting;
  [[nodiscard]] Found find(std::string_view cluster) const;
  void ask(const Found& found, const auth::BearerPtr& token,
           const std::vector<std::string>& audiences, std::string_view cluster, Done done);
  void wait(const auth::BearerPtr& token, const std::vector<std::string>& audiences,
            std::string_view cluster, Done done);
  void go_on();

  net::Loop& loop_;
  std::shared_ptr<topology::SnapshotView> view_;
  Duration patience_;
  auth::ConfiguredIssuers tokens_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Waiting>> waiting_;
  std::uint64_t last_ticket_ = 0;
  Alive alive_;
  WorkspaceIssuersPtr issuers_ = std::make_shared<const WorkspaceIssuers>();
};

}  // namespace kintsugi::proxy
