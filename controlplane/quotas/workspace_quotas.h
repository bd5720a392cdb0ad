#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/admission.h"
#include "apiserver/server.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/quotas/workspace_books.h"
#include "krm/json.h"
#include "store/books.h"

/// How much a logical cluster may have, and what is told to those who want more (SE-093, KK-233).
namespace kintsugi::controlplane {

/// What a workspace may have where nobody said otherwise; kNoLimit: any.
[[nodiscard]] store::Sums default_quotas() noexcept;
/// "objects=1000": changes one of them; 0: any. False: there is no such, or it is no number.
[[nodiscard]] bool set_quota(store::Sums& quotas, std::string_view key, std::string_view value);

/// Limits of a logical cluster, from its LogicalCluster: the annotations of krm/annotations.h, else
/// the defaults, from phase Ready on. The clusters of the system and `root` have those of their
/// annotations alone. nullopt: none yet.
[[nodiscard]] std::optional<store::Sums> quotas_of(std::string_view cluster,
                                                   const krm::Json& logical_cluster,
                                                   const store::Sums& defaults);

/// Tells the store's books what each logical cluster may have, as its LogicalCluster changes; one
/// for all loops. Threads: the server's loop.
class WorkspaceQuotas {
 public:
  /// @param books  outlive it
  WorkspaceQuotas(store::Books& books, const store::Sums& defaults)
      : books_(books), defaults_(defaults) {}
  ~WorkspaceQuotas();
  WorkspaceQuotas(const WorkspaceQuotas&) = delete;
  WorkspaceQuotas& operator=(const WorkspaceQuotas&) = delete;
  void start(apiserver::ApiServer& server);

 private:
  void put(std::string_view cluster, const krm::Json* logical_cluster);

  store::Books& books_;
  const store::Sums defaults_;
  std::shared_ptr<void> changes_;
};

/// Holds whoever comes from outside to the limits: all of them, but of system:masters none, of
/// administrators not that of workspaces of one owner. Writes of /status keep to that of bytes,
/// with a tenth more.
/// A new APIBinding is refused where what its export has now would be too many definitions; of
/// those that come at once each sees what was bound before. @param books, catalog  outlive it
[[nodiscard]] std::unique_ptr<apiserver::AdmissionStep> quota_step(const store::Books& books,
                                                                   const ApiCatalog& catalog);

}  // namespace kintsugi::controlplane
