#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/time.h"

namespace kintsugi::workers {

/// `roles.messaging.messaging` of a WorkerConfiguration.
struct MessagingConfig {
  /// Logical clusters of the same shard whose namespace `enmasse-infra` holds infras and plans that
  /// spaces of other clusters may use.
  std::vector<std::string> infra_clusters;
  /// Connectors may point at this machine, link-local addresses and routers.
  bool allow_local_connectors = false;
  /// How components are reached: TLS with that CA, and a pair of our own (SASL EXTERNAL) or a user
  /// with a password. Without a CA: in the clear, for loopback.
  std::string ca_file, certificate_file, key_file, user, password_file;
  /// How often a component's counters are asked for, everything is checked, active links are read.
  /// And how often Secrets that objects refer to are read.
  Duration secrets = std::chrono::minutes(1);
  Duration counters = seconds(30), sweep = std::chrono::minutes(30),
           links = std::chrono::minutes(10);
  /// `sweep` by another connection, as MD-5 has it.
  bool resync_by_reconnect = false;
  /// Where routers see the files of certificates, one folder each by its hash; and how long a new
  /// one takes to get there.
  std::string certificate_directory = "/etc/enmasse-certs";
  Duration cert_propagation_delay = seconds(90);
  std::size_t window = 100;  ///< requests at a time at one component
  /// Of one kind at a time. Each writes; a shard refuses what its queues for one user do not hold.
  std::size_t reconciles = 100;
};

}  // namespace kintsugi::workers
