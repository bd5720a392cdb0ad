#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/clusters/server_facts.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// Fills new logical clusters of this shard and empties those that are being deleted.
/// Source: AM-484, AM-488, AM-489.
/// New: namespaces default and kube-system, ClusterRoleBinding workspace-admin for the creator,
/// then status (URL, initializers, terminators, phase, conditions). The binding and the annotation
/// kcp.io/path are restored whenever they differ (KK-103, KK-104), and who serves which resource is
/// written down (KK-117, resource_locks.h). Initializers whose work this
/// controller does are done at once; the cluster is Ready when no other is left.
/// Deleted: once all terminators are gone, every object of every kind that the cluster serves,
/// honouring finalizers; cluster-wide RBAC last, so that whoever must take finalizers off still
/// may; then our finalizer. What late requests left behind is swept from the store afterwards.
class LogicalClusterController final : public apiserver::ControllerBase {
 public:
  struct Params {
    std::string shard_name;
    store::Store& store;
    ClusterIndex& index;
    /// "https://proxy:6443": what stands before /clusters/ in URLs for users.
    std::function<std::string()> external_url;
    /// The cluster has its first content, or none any more: starts and ends other controllers.
    std::function<void(std::string_view cluster, bool deleting)> on_content;
  };
  LogicalClusterController(const apiserver::ControllerContext& context, Params params);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  struct Fill;
  void process(const std::string& cluster, Finished finished) override;
  void fill(const std::shared_ptr<Fill>& work);
  void set_status(const std::shared_ptr<Fill>& work);
  bool keep_path(const std::string& cluster, const krm::Json& object, const Finished& finished);
  bool keep_admin(const std::string& cluster, const krm::Json& object, const Finished& finished);
  bool keep_owner(const std::string& cluster, const krm::Json& object, const Finished& finished);
  bool keep_locks(const std::string& cluster, const krm::Json& object, const Finished& finished);
  void empty(const std::string& cluster, krm::Json object, Finished finished);
  void sweep(const std::string& cluster, Finished finished);
  void sweep_rows(const std::string& cluster, std::shared_ptr<std::vector<store::Op>> ops,
                  Finished finished);

  Params params_;
  ServerFacts facts_;  // of LogicalClusters: {uid, path}
};

}  // namespace kintsugi::controlplane
