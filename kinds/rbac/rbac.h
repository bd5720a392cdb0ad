#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "base/strings.h"
#include "kinds/rbac/internal/rbac_bootstrap.h"
#include "kinds/rbac/internal/rbac_rules.h"

namespace kintsugi::kinds {

struct RbacParams {
  /// Groups that may do everything in every logical cluster and read `*` (KK-300).
  std::vector<std::string> admin_groups{std::string(auth::kGroupKcpAdmin)};
  /// A request in a logical cluster first needs non-resource verb `access` on `/` there (AM-491);
  /// its own ServiceAccounts do not.
  bool workspace_access = false;
  /// Logical clusters that every authenticated user may enter, besides `workspace_access`, with the
  /// rights of bootstrap_open_bindings(): kcp's root.
  std::vector<std::string> open_clusters;
  /// There they also have bootstrap_reader_bindings(), as in kcp's root (KK-075).
  bool open_clusters_are_read = false;
  /// Its ClusterRoles and ClusterRoleBindings hold in every logical cluster, before the bootstrap
  /// policy's of the same name; the roles may be bound there, too. "": none (KK-314).
  std::string shared_cluster{};
  /// "access granted" and "access denied" in place of RBAC's own reasons (shards).
  bool mask_reasons = false;
};

/// RBAC on an index in memory: per logical cluster its Roles, ClusterRoles and bindings, plus the
/// bootstrap policy that all share. One instance per loop, answers at once.
/// Cost: a decision is linear in the bindings of its cluster; a cluster without own RBAC objects
/// takes no memory.
class RbacAuthorizer final : public auth::Authorizer {
 public:
  explicit RbacAuthorizer(RbacParams params);

  /// Reads what is stored (all clusters) and follows every change. Before this only system:masters
  /// and the admin groups are let in. `server` must outlive this object or stop().
  void start(apiserver::ApiServer& server);
  void stop() noexcept;

  void authorize(const auth::Attributes& attributes, Done done) override;
  [[nodiscard]] auth::Decision decide(const auth::Attributes& attributes) const;

  /// Every rule that holds for the user in the namespace ("" = cluster-wide rules only).
  [[nodiscard]] PolicyRules rules_for(const auth::UserInfo& user, std::string_view cluster,
                                      std::string_view ns) const;
  /// The same out of stored objects only, as kcp's escalation check sees them. `absent_roles` gets
  /// the names of bound roles that are not stored.
  [[nodiscard]] PolicyRules stored_rules_for(const auth::UserInfo& user, std::string_view cluster,
                                             std::string_view ns,
                                             std::vector<std::string>& absent_roles) const;
  /// Rules of a stored role; nullptr when absent.
  [[nodiscard]] std::shared_ptr<const PolicyRules> stored_role(std::string_view cluster,
                                                               bool cluster_role,
                                                               std::string_view ns,
                                                               std::string_view name) const;

  /// One object of group rbac.authorization.k8s.io; null `object`: deleted. For feeding by hand.
  void apply(std::string_view cluster, std::string_view resource, std::string_view ns,
             std::string_view name, const krm::Json* object);
  [[nodiscard]] std::size_t cluster_count() const noexcept { return clusters_.size(); }

 private:
  struct Role {
    std::shared_ptr<const PolicyRules> rules;
    std::uint8_t aggregates_to = kToNone;
  };
  using Roles = std::map<std::string, Role, std::less<>>;
  using Bindings = std::map<std::string, Binding, std::less<>>;
  struct Cluster {
    Roles cluster_roles;
    Bindings cluster_bindings;
    std::map<std::string, Roles, std::less<>> roles;        // by namespace
    std::map<std::string, Bindings, std::less<>> bindings;  // by namespace
    [[nodiscard]] bool empty() const noexcept {
      return cluster_roles.empty() && cluster_bindings.empty() && roles.empty() && bindings.empty();
    }
  };
  /// Return false to stop. `binding` of a bootstrap rule is one of bootstrap_bindings().
  using RuleVisitor =
      std::function<bool(const PolicyRule&, const Binding& binding, const Subject& subject)>;

  [[nodiscard]] const Cluster* cluster_of(std::string_view name) const;
  [[nodiscard]] bool is_admin(const auth::UserInfo& user) const;
  [[nodiscard]] bool is_open(std::string_view cluster) const;
  [[nodiscard]] bool may_enter(const auth::UserInfo& user, std::string_view cluster) const;
  [[nodiscard]] auth::Decision evaluate(const auth::Attributes& attributes) const;
  void visit(const auth::UserInfo& user, std::string_view cluster, std::string_view ns,
             const RuleVisitor& visitor) const;
  /// @param cluster whose own roles are meant first; null: shared ones alone.
  [[nodiscard]] bool visit_role(const Cluster* cluster, const Binding& binding,
                                const Subject& subject, const RuleVisitor& visitor) const;
  [[nodiscard]] const Cluster* shared() const;

  RbacParams params_;
  StringMap<Cluster> clusters_;
  std::vector<std::shared_ptr<void>> subscriptions_;
};

/// The identity as which `user` counts in `cluster`: outside of its scopes (extra
/// authentication.kcp.io/scopes, "cluster:<name>") just any authenticated user.
[[nodiscard]] auth::UserInfo effective_user(const auth::UserInfo& user, std::string_view cluster);

}  // namespace kintsugi::kinds
