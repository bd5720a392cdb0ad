#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "krm/config_environment.h"
#include "krm/config_schema.h"
#include "krm/config_table.h"
#include "serving/trace_gate.h"
#include "workers/delivery/delivery_config.h"
#include "workers/eventing/eventing_config.h"
#include "workers/messaging/messaging_config.h"

namespace kintsugi::server {

/// Whether each role has a process of its own (RT-2).
enum class WorkerIsolation : std::uint8_t { kProcess, kThread };

/// Where something listens.
struct WorkerAddress {
  std::string address;     ///< IP address, or the path of a Unix socket; "": nothing listens
  std::uint16_t port = 0;  ///< 0: chosen by the kernel
  bool operator==(const WorkerAddress&) const = default;
};
/// "127.0.0.1:8080", "[::1]:8080", ":8080" (all addresses of IPv4), "/run/worker.sock"; "0":
/// nothing listens. nullopt: something else.
[[nodiscard]] std::optional<WorkerAddress> parse_worker_address(std::string_view text);
/// What parse_worker_address() reads.
[[nodiscard]] std::string address_text(const WorkerAddress& address);

/// `roles.<name>` of a WorkerConfiguration.
struct WorkerRoleConfig {
  std::string name;
  std::string slice_cluster, slice;  ///< `endpoints`: an APIExportEndpointSlice (RT-10)
  std::vector<std::string> servers;  ///< `server`, or --shards: endpoints without a slice
  std::vector<std::string> allowed_endpoint_hosts;
  std::vector<std::string> lease_clusters;
  std::size_t memory_limit = std::size_t{1} << 30;  ///< [bytes] (RT-5)
  std::size_t journal_max = std::size_t{8} << 30;   ///< [bytes] (RT-75)
  double writes_per_second = 200, burst = 400;      ///< (RT-16)
  Duration lease_duration = seconds(15);            ///< (RT-51)
  Duration lease_renew = seconds(2), lease_give_up = seconds(10);
  workers::MessagingConfig messaging;  ///< of the role of that name
  workers::DeliveryConfig delivery;    ///< likewise
  workers::EventingConfig eventing;    ///< likewise
};

/// One document, kind WorkerConfiguration, kintsugi.dev/v1alpha1 (RT-6; docs/configuration.md).
/// Relative file names are relative to the folder of the file.
struct WorkerConfig {
  std::string kubeconfig;
  std::string data_dir = "worker-data";
  WorkerAddress metrics{"127.0.0.1", 8080}, health{"127.0.0.1", 8081};
  std::string admin_socket;  ///< where it is asked (OP-303); "": run/admin.sock in data_dir
  serving::TracingConfig tracing;
  WorkerIsolation isolation = WorkerIsolation::kProcess;
  std::vector<WorkerRoleConfig> roles;  ///< those that are to run, in their order
};

/// What the command line says; it wins. nullopt: nothing.
struct WorkerOverrides {
  std::optional<std::string> roles, isolation, shards, data_dir, metrics, health, admin_socket;
};

/// The names in `--roles`, or in another `flag`. @param known  of the roles that this program has
/// @error kConfig: there is none, one is not known or is there twice; names it (RT-1).
[[nodiscard]] Expected<std::vector<std::string>> parse_worker_roles(
    std::string_view text, const std::vector<std::string>& known,
    std::string_view flag = "--roles");

/// Reads the document, lets `overrides` win, and checks what can be checked without other files.
/// Without `overrides.roles` the roles of the document are to run.
/// @param origin  is filled; may be null.
/// @param environment  wins over the document; overrides win over it.
/// @error kConfig "<path>:<line>: <key>: <what is wrong>", a line for each fault (OP-105), or
/// "--<flag>: …".
[[nodiscard]] Expected<WorkerConfig> parse_worker_config(
    std::string_view text, const std::string& path, const std::vector<std::string>& known,
    const WorkerOverrides& overrides = {}, krm::ConfigOrigin* origin = nullptr,
    const krm::ConfigEnvironment& environment = {});

/// Every key of the roles that are to run, with its value and source (OP-106). None of them is a
/// secret: those are in files.
[[nodiscard]] std::vector<krm::ShownKey> shown_config(const WorkerConfig& config,
                                                      const krm::ConfigOrigin& origin = {});
/// The documents that there may be, for all these roles, and their variables (OP-107, OP-108).
[[nodiscard]] krm::ConfigDescription describe_worker_config(const std::vector<std::string>& known);
/// The document that says the same.
[[nodiscard]] std::string render_worker_config(const WorkerConfig& config);

}  // namespace kintsugi::server
