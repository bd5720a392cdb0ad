#include "controlplane/replication/replicated_rights.h"

#include <array>
#include <utility>

#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";
constexpr std::array<std::string_view, 2> kResources = {"clusterroles", "clusterrolebindings"};

}  // namespace

ReplicatedRights::ReplicatedRights(ClusterIndex& index, kinds::RbacAuthorizer& rbac,
                                   std::function<void(std::string_view cluster)> changed)
    : index_(index), rbac_(rbac), changed_(std::move(changed)) {}

void ReplicatedRights::start(apiserver::ApiServer& server) {
  server_ = &server;
  for (const std::string_view resource : kResources) {
    subscriptions_.push_back(server.on_change(
        kinds::kReplicaGroup, resource, [this](const apiserver::ApiServer::Change& change) {
          if (index_.find(change.cluster) != nullptr) {
            return;
          }
          rbac_.apply(change.cluster, change.resource, "", change.name, change.object.get());
          if (changed_) {
            changed_(change.cluster);
          }
        }));
    server.reader().list("*", kinds::kReplicaGroup, resource, "", [&](const Json& object) {
      const std::string cluster = cluster_of(object);
      if (index_.find(cluster) == nullptr) {
        rbac_.apply(cluster, resource, "", object.text({"metadata", "name"}), &object);
      }
      return true;
    });
  }
  index_.listen([this](const ClusterInfo* now, const ClusterInfo* before) {
    if (now == nullptr) {
      moved(before->name, false);
    } else if (before == nullptr) {
      moved(now->name, true);
    }
  });
}

/// A logical cluster came here or went; it may have been, or may be, on another shard.
void ReplicatedRights::moved(std::string_view cluster, bool here) {
  if (subscriptions_.empty()) {
    return;
  }
  const apiserver::ObjectReader& reader = server_->reader();
  for (const std::string_view resource : kResources) {
    reader.list(cluster, kinds::kReplicaGroup, resource, "", [&](const Json& object) {
      const std::string_view name = object.text({"metadata", "name"});
      if (!here) {
        rbac_.apply(cluster, resource, "", name, &object);
      } else if (!reader.get(cluster, kRbacGroup, resource, "", name)) {
        rbac_.apply(cluster, resource, "", name, nullptr);
      }
      return true;
    });
  }
}

}  // namespace kintsugi::controlplane
