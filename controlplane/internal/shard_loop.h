#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/server.h"
#include "auth/certificate_proofs.h"
#include "auth/own_roles.h"
#include "auth/token_proofs.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/catalog/bound_kinds.h"
#include "controlplane/catalog/shard_registry.h"
#include "controlplane/catalog/virtual_resources.h"
#include "controlplane/clusters/cluster_access.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/clusters/peer_shards.h"
#include "controlplane/clusters/root_view.h"
#include "controlplane/controllers/binding_policy.h"
#include "controlplane/controllers/home_workspace.h"
#include "controlplane/controllers/workspace_types.h"
#include "controlplane/internal/kcp_stand_in.h"
#include "controlplane/internal/shard_access.h"
#include "controlplane/internal/shard_accounts.h"
#include "controlplane/internal/shard_handler.h"
#include "controlplane/internal/type_tokens.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "controlplane/moves/fenced_store.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_steps.h"
#include "controlplane/moves/move_view.h"
#include "controlplane/replication/replicated_rights.h"
#include "controlplane/replication/replication.h"
#include "controlplane/replication/replication_grace.h"
#include "controlplane/shard_server.h"
#include "controlplane/views/apiexport_view.h"
#include "controlplane/views/lifecycle_view.h"
#include "controlplane/views/partition_view.h"
#include "controlplane/views/replication_view.h"
#include "controlplane/views/schema_view.h"
#include "controlplane/views/view_resolver.h"
#include "kinds/rbac/rbac.h"
#include "kinds/registry.h"
#include "net/listener.h"
#include "serving/crowded.h"
#include "serving/trace_gate.h"

namespace kintsugi::controlplane {

/// Everything that serves requests on one loop of a shard. Made, used and destroyed on that loop's
/// thread.
class ShardLoop {
 public:
  /// @param ready asked by /readyz: whether the shard as a whole may serve.
  /// @param replication what the replicator of this shard says about itself.
  ShardLoop(net::Loop& loop, store::Store& store, const ShardServerParams& params,
            std::function<Expected<void>()> ready,
            std::shared_ptr<const ReplicationReport> replication);
  ~ShardLoop();
  ShardLoop(const ShardLoop&) = delete;
  ShardLoop& operator=(const ShardLoop&) = delete;

  [[nodiscard]] Expected<void> listen(std::uint16_t port, bool shared_port);
  [[nodiscard]] std::uint16_t port() const noexcept { return listener_->port(); }
  /// Of virtual workspaces, if they have one of their own; else 0.
  [[nodiscard]] std::uint16_t services_port() const noexcept {
    return services_listener_ == nullptr ? 0 : services_listener_->port();
  }
  void set_tls(std::shared_ptr<net::TlsContext> tls) { listener_->set_tls(std::move(tls)); }
  void set_account_keys(auth::JwtKeys keys) {
    tokens_->set_keys(std::move(keys));
    token_proofs_.ask_all();
  }
  /// Ends after `limit` at the latest.
  void drain(Duration limit, std::function<void()> done);

  /// Memory runs short: gives up what the pressure's step says (SE-091). Its loop.
  void shed();

  [[nodiscard]] net::Loop& loop() noexcept { return loop_; }
  [[nodiscard]] const auth::ServiceAccountTokens& tokens() const noexcept { return *tokens_; }
  [[nodiscard]] apiserver::ApiServer& server() noexcept { return *server_; }
  [[nodiscard]] const apiserver::Registry& registry() const noexcept { return *registry_; }
  [[nodiscard]] ClusterIndex& index() noexcept { return index_; }
  [[nodiscard]] RootView& root() noexcept { return root_; }
  [[nodiscard]] PeerShards& peers() noexcept { return peers_; }
  [[nodiscard]] ApiCatalog& catalog() noexcept { return catalog_; }
  [[nodiscard]] const BoundKinds& bound_kinds() const noexcept { return bound_; }
  [[nodiscard]] BindingIndex& bindings() noexcept { return bindings_; }
  [[nodiscard]] MoveBook& moves() noexcept { return moves_; }
  [[nodiscard]] MoveSteps& move_steps() noexcept { return move_steps_; }
  [[nodiscard]] const IdentityCheck& identities_in_root() const noexcept { return in_root_; }
  [[nodiscard]] const WorkspaceTypeLookup& types() const noexcept { return types_; }
  /// Null on the root shard.
  [[nodiscard]] RemoteRootFeed* remote_root() noexcept { return remote_root_.get(); }

 private:
  [[nodiscard]] ShardAccounts::Params account_params();
  void make_registry();
  [[nodiscard]] std::string rules_of(const apiserver::PendingWrite& write) const;
  void make_server(std::function<Expected<void>()> ready);
  void make_views();
  /// Why a logical cluster cannot move to a shard; "" also where that cannot be asked.
  void look_at_destination(const std::string& shard, const std::string& cluster,
                           std::function<void(std::string_view why)> done);
  void end_watches(std::string_view cluster);
  /// Proofs of identities have ended.
  void end_unproven();
  [[nodiscard]] auth::ProofPtr proof_of(const http::RequestHead& head, const auth::BearerPtr& token,
                                        const http::PeerInfo& peer, std::string_view cluster,
                                        const auth::UserInfo& requester);
  void rights_changed(std::string_view cluster);
  void remember_root();
  /// What clients have done here, to all who ask; again in a second.
  void tell_abuse();
  void put_abuse() const;
  [[nodiscard]] std::optional<krm::Json> document(std::string_view api_root,
                                                  std::string_view path) const;
  [[nodiscard]] std::optional<krm::Json> key_document(std::string_view api_root,
                                                      std::string_view path) const;

  net::Loop& loop_;
  store::Store& store_;
  FencedStore fenced_{store_};
  const ShardServerParams& params_;
  std::shared_ptr<const ReplicationReport> replication_;
  ClusterIndex index_;
  RootView root_;
  ApiCatalog catalog_;
  WorkspaceTypeLookup types_;
  HomeWorkspaces homes_;
  std::shared_ptr<auth::ServiceAccountTokens> tokens_;
  PeerShards peers_;
  ShardAccounts known_accounts_;
  std::shared_ptr<auth::TokenAuthenticator> accounts_;
  std::shared_ptr<TypeTokens> type_tokens_;
  kinds::RbacAuthorizer rbac_;
  ReplicatedRights other_rights_;
  BoundKinds bound_;
  PolicyAuthorizer policies_;
  PhaseAuthorizer authorizer_;
  StandInAuthorizer stand_in_authorizer_;  // with as_kcp
  ShardAuthenticator authenticator_;
  auth::CertificateProofs certificate_proofs_;
  auth::TokenProofs token_proofs_;
  ViewResolver views_;
  IdentityCheck in_root_;
  BindingIndex bindings_{catalog_};
  VirtualResources virtuals_{bound_};
  MoveBook moves_{store_};
  MoveSteps move_steps_;
  AnsweringView move_view_{*cluster_dump_kind(), auth::kGroupOwnShard, answer_moves(move_steps_)};
  ServerFacts notes_{loop_, store_};
  AnsweringView partition_view_{*partition_note_kind(), auth::kGroupOwnProxy, answer_notes(notes_)};
  std::unique_ptr<kinds::StaticPlusCrdRegistry> own_kinds_;
  std::unique_ptr<ShardRegistry> registry_;
  std::unique_ptr<LifecycleViews> lifecycle_views_;
  std::unique_ptr<ApiExportViews> export_views_;
  std::unique_ptr<SchemaViews> schema_views_;
  std::unique_ptr<ReplicationViews> replication_views_;
  std::unique_ptr<apiserver::ApiServer> server_;
  std::unique_ptr<ShardClusterAccess> holders_;
  std::vector<std::shared_ptr<void>> rights_changes_;
  std::unique_ptr<LocalRootFeed> local_root_;
  std::unique_ptr<RemoteRootFeed> remote_root_;
  std::unique_ptr<ShardHandler> handler_;
  std::unique_ptr<serving::TraceGate> trace_;                     ///< null: no spans are collected
  std::unique_ptr<StandInHandler> stand_in_, stand_in_services_;  // with as_kcp
  serving::CrowdedHandler crowded_;
  std::unique_ptr<net::Listener> listener_, services_listener_;
  ReplicationGrace grace_;
  net::Timer drain_timer_;
  net::Timer abuse_timer_;
  const std::size_t abuse_slot_;
};

}  // namespace kintsugi::controlplane
