#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/layout.h"
#include "server/limit_options.h"
#include "server/shard_program.h"
#include "server/tenant_options.h"

namespace kintsugi::server {

/// Of the role `delivery` (docs/workers/delivery.md).
struct UpDelivery {
  std::string broker;                  ///< URL; "": `up` runs a Mosquitto
  std::uint16_t port = 1883;           ///< of that one, on 127.0.0.1
  std::vector<std::string> clients{};  ///< "<client id>=<logical cluster>"
};

/// A whole installation on one machine. Checked before: numbers are within their bounds, words are
/// among those that are known.
struct UpOptions {
  Layout layout;  ///< made when missing, reused when there
  std::string address = "127.0.0.1";
  std::uint16_t port = 6443;      ///< of the proxy, not 0
  std::uint16_t admin_port = 0;   ///< of the proxy's admin listener on 127.0.0.1; 0: no TCP
  bool ui = false;                ///< the console at the proxies' port, too
  std::uint32_t shards = 3;       ///< 1 to 64: root, shard-1, shard-2, …
  std::uint32_t shard_loops = 1;  ///< of each
  std::uint32_t proxies = 1;      ///< 1 to 8: proxy, proxy-2, …; several with `uses_etcd` alone
  /// Labels, given to the shards in turn; at least one.
  std::vector<std::string> regions = {"eu-west-1", "us-east-1", "ap-south-1"};
  /// Proxies are in these regions, too, in turn; what goes from one to another is delayed.
  bool regions_far = false;
  std::uint32_t regions_rtt = 80;            ///< [ms], 1 to 10,000
  std::uint32_t regions_lost_per_mille = 0;  ///< packets, 0 to 500
  /// Roles whose workers run beside the shards, each known_worker_roles() at most once.
  std::vector<std::string> workers;
  UpDelivery delivery;
  std::string wildcard = "serve";     ///< as in proxy.yaml
  std::string consumers = "ignored";  ///< as in proxy.yaml, of endpoint_slice
  TenantOptions tenants;
  InstallationLimits limits;
  ShardRevocations revocations;  ///< for the proxy and every shard
  std::string join_address;      ///< where who has a token joins (SE-147); "": nowhere
  std::uint16_t join_port = 0;
  /// Whether data is in etcd, and which one; none is named: `up` runs one itself.
  bool uses_etcd = false;
  std::vector<std::string> etcd_urls;
  std::uint32_t etcd_members = 1;  ///< of the one that `up` runs: 1 or 3
  /// If not all processes are ready by then, it ends [s]; 0: it waits for ever.
  std::int64_t ready_timeout = 60;
  /// What the processes are told of their logs, for the file that one of them writes.
  std::function<std::vector<std::string>(const std::string& file)> log;
  serving::TracingConfig tracing;            ///< of all processes
  std::vector<std::string> trace_arguments;  ///< what a shard is told of it
  bool tells_outgoing = false;  ///< tenants.outgoing_allow is nobody's wish: say what it is
  /// A process that has answered and then does not for so long is started again [s]; 0: none is.
  std::int64_t hang_timeout = 30;
};

/// Whether all roles can be installed, before anything is made. @error kConfig names the option.
[[nodiscard]] Expected<void> check_up_workers(const UpOptions& options);

/// Makes the installation's files, starts its processes, restarts what dies, and stops them in
/// order on SIGTERM or SIGINT.
/// @returns the exit status: 1 with a line on stderr when it could not start, 3 when it was not
/// ready in time.
int run_up_program(UpOptions options);

}  // namespace kintsugi::server
