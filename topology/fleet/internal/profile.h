#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "topology/fleet/internal/access.h"
#include "topology/fleet/internal/fault.h"

namespace kintsugi::topology {

/// What the proxy reads of an object that stands for a cluster: a ClusterProfile, or a kubeconfig
/// Secret of Cluster API.
struct FleetObject {
  std::string ns, name, uid;
  std::vector<std::pair<std::string, std::string>> labels;  ///< sorted, all of them valid
  std::size_t left_out = 0;                                 ///< labels and properties that are not
  /// Of a profile: its access providers, the deprecated ones behind.
  struct Provider {
    std::string name;
    krm::Json cluster;
  };
  std::vector<Provider> providers;
  std::optional<bool> healthy;  ///< condition ControlPlaneHealthy; shown, routes nothing
  std::string cluster;          ///< of a Secret: the Cluster's name
};

/// @error BadProfile names the field
[[nodiscard]] Judged<FleetObject> read_profile(const krm::Json& object,
                                               const FleetOptions& options);

inline constexpr std::string_view kClusterNameLabel = "cluster.x-k8s.io/cluster-name";

/// The object is a kubeconfig Secret of Cluster API (GR-702): its type, its label, and its name
/// after the label.
[[nodiscard]] bool is_cluster_api_secret(const krm::Json& object);
/// One of those. Its uid is the owning Cluster's, so that another Secret for it is the same
/// cluster. @param cluster  the Cluster, whose labels are taken; may be null
[[nodiscard]] Judged<FleetObject> read_cluster_api_secret(const krm::Json& object,
                                                          const krm::Json* cluster);

/// The labels of a cluster that a Secret makes are those of `object`. @error BadProfile
[[nodiscard]] Judged<void> label_by(const krm::Json& object, FleetObject& out);

/// What a profile's provider says of the Secret that has its kubeconfig. It is in the profile's
/// namespace: whoever writes profiles there may not reach into another one.
struct FleetSecretName {
  std::string name, key, context;
  bool operator==(const FleetSecretName&) const = default;
};
[[nodiscard]] Judged<FleetSecretName> secret_of(const FleetObject& profile,
                                                const krm::Json& cluster);

}  // namespace kintsugi::topology
