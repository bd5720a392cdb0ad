#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "controlplane/clusters/cluster_index.h"
#include "controlplane/views/internal/export_view.h"
#include "controlplane/views/view_resolver.h"

namespace kintsugi::controlplane {

/// The virtual workspaces of APIExports, "/services/apiexport/<cluster>/<export>/clusters/<lc>":
/// made when one is asked for, kept while it is used and for the most recent kMaxIdle, and brought
/// up to date when exports, schemas or bindings change. One instance per loop. Memory: the
/// definitions of the kinds of each. Threads: its loop.
class ApiExportViews {
 public:
  static constexpr std::size_t kMaxIdle = 256;

  /// All outlive this.
  struct Sources {
    ApiCatalog& catalog;
    BindingIndex& bindings;
    const ClusterIndex& clusters;
    const kinds::RbacAuthorizer& rbac;
    const apiserver::Registry& builtin;  ///< ExportKindSources::builtin
    IdentityCheck in_root;
  };
  explicit ApiExportViews(Sources sources) : sources_(std::move(sources)) {}

  /// Once; the server outlives all requests to views.
  void start(apiserver::ApiServer& server);
  /// For ViewResolver. An export that is not known is refused as one without rights would be.
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      const ViewRequest& request);
  /// Rights in a cluster changed: watches of what is claimed from an export there are asked about
  /// again, for its maximal permission policy may have let them.
  void rights_changed(std::string_view cluster);

 private:
  struct Known {
    std::weak_ptr<ExportView> view;
    std::shared_ptr<ExportView> kept;
    std::uint64_t used = 0;
  };
  [[nodiscard]] std::shared_ptr<ExportView> view_of(const ExportRef& ref);
  void keep(Known& known, std::shared_ptr<ExportView> view);
  void export_changed(const ExportRef& ref);
  void schema_changed(std::string_view cluster);
  void binding_changed(const BindingInfo* now, const BindingInfo* before);
  template <typename Visit>
  void visit(const Visit& visitor);
  void reload(ExportView& view);

  Sources sources_;
  apiserver::ApiServer* server_ = nullptr;
  std::map<std::string, Known, std::less<>> views_;  // by "<cluster>/<export>"
  std::uint64_t clock_ = 0;
};

}  // namespace kintsugi::controlplane
