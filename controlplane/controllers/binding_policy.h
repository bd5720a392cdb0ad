#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authorizer.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/catalog/bound_kinds.h"
#include "kinds/rbac/rbac.h"

namespace kintsugi::controlplane {

/// Who a user is for maximal permission policies of exports of a logical cluster: name and groups
/// of each of those he is there, with a prefix. Source: KK-312, KK-319.
[[nodiscard]] std::vector<auth::UserInfo> policy_users(const auth::UserInfo& user,
                                                       std::string_view export_cluster);
/// Whether the roles of the export's cluster let one of policy_users() do this.
[[nodiscard]] bool allows_in_policy(const kinds::RbacAuthorizer& rbac,
                                    const auth::Attributes& attributes,
                                    std::string_view export_cluster);

/// Maximal permission policies (AM-509): what `rbac` allows on a bound
/// resource must also be allowed in the cluster of its APIExport, to the user
/// "apis.kcp.io:binding:<name>" or a group with that prefix, when the export says so. Deep reviews
/// and system:masters are not asked. Cost: a hash look-up, and another decision where there is a
/// policy. Of an export that is gone only reads
/// are left where the binding remembers a policy (KK-313). Threads: one loop. All parts outlive it.
class PolicyAuthorizer final : public auth::Authorizer {
 public:
  PolicyAuthorizer(const BoundKinds& bound, ApiCatalog& catalog, const kinds::RbacAuthorizer& rbac)
      : bound_(bound), catalog_(catalog), rbac_(rbac) {}
  using Changed = std::function<void(std::string_view cluster)>;
  /// Follows the exports; before the catalog starts. @param changed gets the logical clusters where
  /// other rights than before may hold.
  void start(Changed changed);
  /// Rights in a cluster changed; it may hold exports with policies.
  void rights_changed(std::string_view cluster) const;
  void authorize(const auth::Attributes& attributes, Done done) override;

 private:
  struct Known {
    std::string uid;  ///< "": there is no such export
    bool policed = false;
    bool operator==(const Known&) const = default;
  };
  [[nodiscard]] const Known& policy_of(const ExportRef& ref);
  [[nodiscard]] bool is_within_policy(const auth::Attributes& attributes);

  const BoundKinds& bound_;
  ApiCatalog& catalog_;
  const kinds::RbacAuthorizer& rbac_;
  Changed changed_;
  StringMap<Known> policies_;  // by "<cluster>/<export>", as far as they were asked for
};

}  // namespace kintsugi::controlplane
