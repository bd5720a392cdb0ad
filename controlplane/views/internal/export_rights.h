#pragma once

#include "auth/authorizer.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/views/internal/binding_index.h"
#include "kinds/rbac/rbac.h"

/// Who may do what in the virtual workspace of an APIExport. Source: KK-341,
/// AM-509, AM-515.
namespace kintsugi::controlplane {

/// What decisions rest on; all outlive their users. Threads: one loop.
struct ExportRightsSources {
  const ApiCatalog& catalog;
  const BindingIndex& bindings;
  const kinds::RbacAuthorizer& rbac;
  const IdentityCheck& in_root;
};

/// In this order: the cluster that is addressed has a binding of the export that brings the
/// resource or accepts a claim on it with the verb (not asked for "*" and non-resource paths;
/// bindings themselves may be read); the user has the verb on `apiexports/content` of the export,
/// where it lives; the maximal permission policies of claimed APIs allow it.
class ExportRights final : public auth::Authorizer {
 public:
  /// @param offered  claims of the export; outlive this.
  ExportRights(ExportRightsSources sources, ExportRef ref,
               const std::vector<PermissionClaim>& offered)
      : sources_(sources), ref_(std::move(ref)), offered_(offered) {}
  void authorize(const auth::Attributes& attributes, Done done) override;
  [[nodiscard]] bool decide(const auth::Attributes& attributes) const;

 private:
  [[nodiscard]] const PermissionClaim* offer_on(std::string_view group,
                                                std::string_view resource) const noexcept;
  [[nodiscard]] bool is_let_in(const auth::Attributes& attributes) const;
  [[nodiscard]] bool is_within_policies(const auth::Attributes& attributes) const;

  ExportRightsSources sources_;
  ExportRef ref_;
  const std::vector<PermissionClaim>& offered_;
};

/// Whether the user has the verb on `apiexports/content` of the export, where it lives.
[[nodiscard]] bool has_content(const kinds::RbacAuthorizer& rbac, const ExportRef& ref,
                               const auth::Attributes& attributes);

/// Whether the maximal permission policy of an export lets the user do this; true when it has none.
/// Asked of RBAC in the export's cluster, for policy_user().
[[nodiscard]] bool within_maximal_policy(const kinds::RbacAuthorizer& rbac,
                                         const krm::Json& api_export,
                                         std::string_view export_cluster,
                                         const auth::Attributes& attributes);

}  // namespace kintsugi::controlplane
