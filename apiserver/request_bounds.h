#pragma once

#include <memory>

#include "krm/json.h"
#include "serving/fair_queues.h"
#include "serving/process_limits.h"

namespace kintsugi::apiserver {

class ApiServer;

/// Which requests of a server run, which wait and which are refused from now on, before any has
/// come: a request has a seat from when its body is whole to the end of its work (SE-075, SE-076);
/// a list or a watch until its answer has begun. Health checks and members of system:masters are
/// exempt. Without this call nobody waits, and only ConcurrencyLimits hold.
/// @param limits  of the process; its limit of a shard is what all clusters of the server have
void bound_requests(ApiServer& server, std::shared_ptr<serving::ProcessLimits> limits);

/// Who runs and waits.
[[nodiscard]] const serving::FairQueues& request_queues(const ApiServer& server) noexcept;
/// Of each level what its seats and queues hold, and by name who has most, for /debug/fairness.
[[nodiscard]] krm::Json fairness_report(const ApiServer& server);

}  // namespace kintsugi::apiserver
