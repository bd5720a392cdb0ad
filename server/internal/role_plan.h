#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "server/layout.h"
#include "server/worker_config.h"

/// What `kintsugi up --workers` installs for a role, out of the files of `configs/` that are part
/// of the program. No I/O. Threads: any.
namespace kintsugi::server {

/// Names of what belongs to a role.
struct RoleNames {
  std::string role;  ///< "messaging"
  /// Of its process: "worker-messaging", as pid and log files and its pair have it.
  [[nodiscard]] std::string process() const { return "worker-" + role; }
  [[nodiscard]] std::string user() const { return role + "-worker"; }
  [[nodiscard]] std::string group() const { return role + "-workers"; }
  /// The provider's workspace, with the export and the slice: "root:messaging".
  [[nodiscard]] std::string provider() const { return "root:" + role; }
  /// A workspace in the provider's, on that shard: "leases-shard-1".
  [[nodiscard]] static std::string leases(const std::string& shard) { return "leases-" + shard; }
};

/// Objects in the order in which they are installed.
struct RolePlan {
  RoleNames names;
  std::vector<krm::Json> in_root, in_provider;
  std::vector<krm::Json> in_leases;   ///< of each workspace for Leases
  std::vector<krm::Json> in_targets;  ///< of what a role without an APIExport fills
  std::vector<krm::Json> in_pools;    ///< beside Leases, when the provider's exports are there
};

/// From `<role>/` and, for `example`, `worker/`; rights in root and at Leases are those of
/// `worker/`, which names the user `greeter`: here the role's group stands for him. `delivery` has
/// no APIExport, but rights for the logical clusters that it fills. `eventing` has what stands
/// beside its Leases (`pool.yaml`), and two exports, of which the last is its own. A slice in the
/// files is left out; instead there is one of the name `workers` for the Partition `workers`
/// (partition_of_workers()). The first part of a schema's name, `v1` in the files, is made of its
/// content: one that another version of the program has is beside the one that is there.
/// @error kConfig the program has no files of the role, or none with an APIExport; or names the
///        file that cannot be read.
[[nodiscard]] Expected<RolePlan> plan_role(const std::string& role);

/// The shards whose consumers the workers serve.
[[nodiscard]] krm::Json partition_of_workers(const std::vector<std::string>& shards);
[[nodiscard]] krm::Json workspace_on(const std::string& name, const std::string& shard);
/// Wherever there is room.
[[nodiscard]] krm::Json workspace_named(const std::string& name);

/// Where an object is, below the server: "/clusters/<cluster>/apis/<group>/…/<name>"; without the
/// name for who makes one.
[[nodiscard]] std::string collection_target(std::string_view cluster, const krm::Json& object);
[[nodiscard]] std::string object_target(std::string_view cluster, const krm::Json& object);

/// What the worker of the role is told: sockets in `run/`, data and kubeconfig beside its file.
[[nodiscard]] WorkerConfig config_of_role(const Layout& layout, const RoleNames& names,
                                          const std::vector<std::string>& shards);

}  // namespace kintsugi::server
