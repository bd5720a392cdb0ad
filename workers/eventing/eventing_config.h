#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/time.h"
#include "workers/eventing/contract/contract.h"

namespace kintsugi::workers {

/// `roles.eventing.eventing` of a WorkerConfiguration.
struct EventingConfig {
  /// Where dispatchers stand, in the logical cluster of each shard that has the Leases.
  std::string pool_namespace = "knative-eventing";
  std::int64_t pod_capacity = 20;   ///< POD_CAPACITY: units of a pod, 1 .. 2^31-1
  std::int64_t min_replicas = 0;    ///< DISPATCHERS_MIN_REPLICAS
  std::int64_t max_replicas = 0;    ///< DISPATCHERS_MAX_REPLICAS; 0: no bound
  Duration refresh = seconds(100);  ///< AUTOSCALER_REFRESH_PERIOD
  Duration join = seconds(30);      ///< a move waits for consumers of the new pod
  /// CONSUMER_CONTRACT_CONFIG_MAP_FORMAT
  ContractFormat contract_format = ContractFormat::kJson;
  Duration kafka_timeout = seconds(10);                 ///< of one question to Kafka
  Duration partitions_every = std::chrono::minutes(5);  ///< how often they are counted
  std::size_t reconciles = 64;                          ///< of one kind at a time
};

}  // namespace kintsugi::workers
