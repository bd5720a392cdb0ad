#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/views/internal/claims.h"
#include "krm/json.h"
#include "krm/selector.h"

namespace kintsugi::controlplane {

/// One resource of the virtual workspace of an APIExport.
struct ExportKind {
  apiserver::ResourcePtr def;
  std::string fingerprint;               ///< of what the definition and the rest are made from
  krm::Selector visible;                 ///< labels of the objects that exist there; empty: all
  std::optional<PermissionClaim> claim;  ///< of the export; nullopt: its own, or its bindings
  /// What the definition was read from: export and schema.
  ExportRef owner;
  std::string schema;  ///< "": a kind that every cluster has
};

/// Where they come from; all outlive the use.
struct ExportKindSources {
  const ApiCatalog& catalog;
  const apiserver::Registry& builtin;  ///< asked with cluster "*" for kinds that every cluster has
  const IdentityCheck& in_root;
};

/// The export's resources in all versions, what it claims, and its APIBindings (read-only unless
/// claimed). Its own resources hide claims on the same. Claims on unknown resources, and on what
/// nobody may claim (SelfSubjectAccessReview and its like), bring nothing; so does an export
/// without identity, but for its bindings. Subresources of claimed kinds are status and scale.
/// Source: KK-341.
/// @param before  definitions with the same fingerprint are taken from there.
[[nodiscard]] std::vector<ExportKind> export_kinds(const ExportKindSources& sources,
                                                   const ExportRef& ref,
                                                   const krm::Json& api_export,
                                                   const std::vector<ExportKind>& before);

}  // namespace kintsugi::controlplane
