#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::workers {

/// What is known of the consumers of one group on one pod.
struct ConsumerFacts {
  std::int64_t generation = 0;  ///< of the Consumer
  std::string pod;
  std::string fault;                ///< why it is in no contract; "": it may be
  bool filter_unsupported = false;  ///< and that is its filter
  bool pod_exists = false;
  bool in_contract = false;  ///< the pod says that its contract has the group
  bool bound = false;        ///< with this placement
  // As GroupEntry has them.
  std::string_view subscriber, subscriber_ca_certs, dead_letter, dead_letter_ca_certs;
};

/// Sets Contract, Bind and Ready of a Consumer, its sinks and its observedGeneration. Contract is
/// False for what is in no contract (`ReconcileContract`, DP-6's `FilterUnsupported`), and Unknown
/// before the pod says that it has it; Bind is False while the pod has not this placement
/// (`BindInProgress`), or is gone (`ConsumerBinding`). Source: section 4.
/// @param now  RFC 3339. Threads: any.
void set_consumer_status(krm::Json& status, const ConsumerFacts& facts, std::string_view now);

}  // namespace kintsugi::workers
