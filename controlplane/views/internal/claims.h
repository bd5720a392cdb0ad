#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "controlplane/catalog/api_catalog.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "krm/json.h"
#include "krm/selector.h"

/// Permission claims: what an APIExport asks for and an APIBinding grants in its cluster. Labels on
/// the claimed objects say which export may see them; they are those of kcp. Source:
/// KK-341, AM-507, AM-508.
namespace kintsugi::controlplane {

/// An entry of spec.permissionClaims of an export or a binding (apis.kcp.io/v1alpha2).
struct PermissionClaim {
  std::string group, resource;
  std::string identity;            ///< of the claimed API, "": builtin or of apis.kcp.io
  std::vector<std::string> verbs;  ///< "*": all
  bool accepted = false;           ///< bindings only
  krm::Json match_labels;          ///< bindings only; object or null
  /// Bindings only: labels of the objects it is about; empty: all. A selector that cannot be read
  /// matches nothing.
  krm::Selector selector;

  [[nodiscard]] bool has_verb(std::string_view verb) const noexcept;
  /// Whether it means this resource, which is stored under an identity or none. Kinds that every
  /// shard has itself may be claimed by the identity under which root exports them.
  [[nodiscard]] bool is_about(std::string_view of_group, std::string_view of_resource,
                              std::string_view of_identity, const IdentityCheck& in_root) const;
  bool operator==(const PermissionClaim&) const = default;
};
/// @param list  may be null.
[[nodiscard]] std::vector<PermissionClaim> parse_claims(const krm::Json* list);

/// Events of both groups are the same objects: claims on either mean those of the core group.
[[nodiscard]] std::string_view claimed_group(std::string_view group,
                                             std::string_view resource) noexcept;

/// "claimed.internal.apis.kcp.io/<hash of the export>"
[[nodiscard]] std::string claim_label_key(const ExportRef& ref);
/// Its value on objects that the claim is about; says nothing of verbs and selectors.
[[nodiscard]] std::string claim_label_value(const PermissionClaim& claim);
/// Its value on an APIBinding of the export itself that no claim is about.
[[nodiscard]] std::string own_binding_label_value();
/// Value of label internal.apis.kcp.io/export on every APIBinding of the export.
[[nodiscard]] std::string export_label_value(const ExportRef& ref);

}  // namespace kintsugi::controlplane
