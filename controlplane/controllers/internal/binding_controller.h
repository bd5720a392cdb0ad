#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/catalog/bound_kinds.h"
#include "controlplane/controllers/binding_status.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// Status and end of APIBindings (AM-499 to AM-507).
/// Bound: the schemas are copied into rows of this shard before the status names them, so that the
/// resources are served (BoundKinds) also when the export's shard is away. Deleted: the objects of
/// the bound resources go first, honouring finalizers. A resource of a cluster belongs to the
/// binding that took it first, or to its CustomResourceDefinition. Copies that no binding uses any
/// more are removed. Cost of a change of an export: one run for each binding of its name.
class BindingController final : public apiserver::ControllerBase {
 public:
  struct Params {
    store::Store& store;
    ApiCatalog& catalog;
    const BoundKinds& bound;
  };
  BindingController(const apiserver::ControllerContext& context, const Params& params);
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;

 private:
  using Keys = std::set<std::string>;
  struct Known {
    std::string export_name, export_cluster;
    bool bound = false, leaving = false;
    std::vector<std::string> resources;  // "widgets.ex.io" that status names
  };
  struct Cluster {
    std::map<std::string, Known, std::less<>> bindings;
    std::map<std::string, std::string, std::less<>> holders;  // "widgets.ex.io" -> binding
  };

  void process(const std::string& key, Finished finished) override;
  void note(std::string_view cluster, std::string_view name, const krm::Json* binding);
  void forget(std::string_view cluster, std::string_view name);
  void enqueue_cluster(std::string_view cluster, bool only_unsettled);

  [[nodiscard]] BindingSources sources_for(const apiserver::ObjectKey& key);
  [[nodiscard]] std::optional<ResourceHolder> take(const apiserver::ObjectKey& key,
                                                   std::string_view group, std::string_view plural);
  [[nodiscard]] std::string names_conflict(const apiserver::ObjectKey& key,
                                           const krm::Json& schema) const;

  [[nodiscard]] bool copy_extras(std::string_view cluster, krm::Json& binding) const;
  void settle(const apiserver::ObjectKey& key, krm::Json binding, Finished finished);
  void store_schemas(const apiserver::ObjectKey& key, std::vector<krm::Json> schemas,
                     std::function<void(bool stored)> done);
  /// Calls back in a turn of the loop, and not at all when this object is gone.
  void commit(std::vector<store::Op> ops, std::function<void(bool stored)> done);
  void sweep_schemas(Finished finished);

  /// Whether another binding of the cluster has this entry of boundResources too, or will have it
  /// as soon as this one is gone: one that waits for the resource of the same schema and identity.
  [[nodiscard]] bool is_shared(const apiserver::ObjectKey& key, const krm::Json& entry) const;
  struct Remaining;
  [[nodiscard]] Remaining remaining_objects(const apiserver::ObjectKey& key,
                                            const krm::Json& binding) const;
  void unbind(const apiserver::ObjectKey& key, krm::Json binding, Finished finished);
  void remove_objects(const apiserver::ObjectKey& key, Remaining remaining,
                      const Finished& finished);

  Params params_;
  std::map<std::string, Cluster, std::less<>> clusters_;
  StringMap<Keys> by_export_;                            // name of the export
  StringMap<Keys> by_export_cluster_;                    // where it was found
  std::set<std::string, std::less<>> rows_;              // UIDs of stored schemas
  std::map<std::string, std::set<std::string>> coming_;  // by key: UIDs that a write will name
  Keys unapplied_;                                       // bindings with claims not yet applied
  std::size_t leaving_ = 0;                              // bindings that are being deleted
};

}  // namespace kintsugi::controlplane
