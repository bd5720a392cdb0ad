#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "workers/eventing/contract/contract.h"
#include "workers/eventing/delivering/record_delivery.h"
#include "workers/eventing/dispatcher/sinks.h"
#include "workers/eventing/kafka/kafka_producer.h"

namespace kintsugi::workers {

/// What one dispatcher process does by, besides its contract.
struct DispatcherSettings {
  std::string pod;
  Duration session_timeout = seconds(6);
  Duration request_timeout = seconds(30);  ///< of egresses that have none
  Duration drain = seconds(10);            ///< for what is under way when an egress ends (DP-8)
  std::size_t batch = 50;
  std::size_t in_flight = 100;  ///< deliveries of one unordered egress at a time
  std::size_t queued = 200;     ///< records of a partition that wait; more: it is paused
  std::size_t queued_bytes = std::size_t{32} << 20;  ///< of them
};

/// An egress with where its events go. Deliveries keep the one that they began with.
struct EgressTerms {
  ContractResource resource;  ///< without its egresses
  Egress egress;
  RetryPlan plan;
  std::shared_ptr<Sink> destination, reply, dead_letter;  ///< null: there is none
  std::shared_ptr<KafkaProducer> producer;                ///< for replies to the topic
};

/// Producers that egresses share, by bootstrap servers.
class KafkaProducers {
 public:
  KafkaProducers(net::Loop& loop, std::string client_id)
      : loop_(loop), client_id_(std::move(client_id)) {}
  [[nodiscard]] Expected<std::shared_ptr<KafkaProducer>> find(const std::string& bootstrap_servers);

 private:
  net::Loop& loop_;
  std::string client_id_;
  std::map<std::string, std::weak_ptr<KafkaProducer>> all_;
};

/// @param trusted  PEM that the contract trusts besides
/// @error kInvalid, kNotAcceptable of judge_egress(); kConfig: certificates that are none, or
/// credentials for Kafka, which this dispatcher has no access to
[[nodiscard]] Expected<std::shared_ptr<const EgressTerms>> make_terms(
    const ContractResource& resource, const Egress& egress, const std::string& trusted,
    const DispatcherSettings& settings, Sinks& sinks, KafkaProducers& producers);

/// Whether consumers have to be made anew for the change.
[[nodiscard]] bool needs_other_consumers(const EgressTerms& a, const EgressTerms& b);

}  // namespace kintsugi::workers
