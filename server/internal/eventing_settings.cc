#include "server/internal/eventing_settings.h"

#include "krm/config_values.h"
#include "krm/names.h"

namespace kintsugi::server {

namespace {

constexpr std::int64_t kMostUnits = 2'147'483'647, kMostPods = 100'000;

}  // namespace

krm::ConfigTable eventing_keys(workers::EventingConfig& config) {
  using workers::ContractFormat;
  return {
      {"eventing.pool_namespace", krm::text(config.pool_namespace)},
      {"eventing.pod_capacity", krm::number(config.pod_capacity, 1, kMostUnits)},
      {"eventing.min_replicas", krm::number(config.min_replicas, 0, kMostPods)},
      {"eventing.max_replicas", krm::number(config.max_replicas, 0, kMostPods)},
      {"eventing.refresh_period", krm::duration(config.refresh, milliseconds(100))},
      {"eventing.join_patience", krm::duration(config.join, milliseconds(100))},
      {"eventing.contract_format",
       krm::one_of<ContractFormat>(
           config.contract_format,
           {{"json", ContractFormat::kJson}, {"protobuf", ContractFormat::kProtobuf}})},
      {"eventing.kafka.timeout", krm::duration(config.kafka_timeout, milliseconds(100))},
      {"eventing.kafka.partitions_every", krm::duration(config.partitions_every, seconds(1))},
      {"eventing.reconciles", krm::number(config.reconciles, 1, 100'000)},
  };
}

std::pair<std::string, std::string> eventing_fault(const workers::EventingConfig& config) {
  if (!krm::check_dns1123_label(config.pool_namespace).empty()) {
    return {"eventing.pool_namespace", "must be the name of a namespace"};
  }
  if (config.max_replicas > 0 && config.max_replicas < config.min_replicas) {
    return {"eventing.max_replicas", "must be 0, for no bound, or at least min_replicas"};
  }
  return {};
}

}  // namespace kintsugi::server
