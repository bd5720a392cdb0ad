#pragma once

#include <memory>

#include "serving/fair_queues.h"
#include "serving/request_limits.h"

namespace kintsugi::apiserver {

class ApiServer;

/// Which requests of a server run, which wait and which are refused from now on, before any has
/// come: a request has a seat from when its body is whole to the end of its work (SE-075, SE-076);
/// a list or a watch until its answer has begun. Health checks and members of system:masters are
/// exempt. Without this call nobody waits, and only ConcurrencyLimits hold.
/// @param seats   of this server's loop (SE-070 to SE-074)
/// @param limits  of the process (R-30, SE-089); null: none. `shard` is what all clusters have.
void bound_requests(ApiServer& server, const serving::FairLimits& seats,
                    std::shared_ptr<serving::RequestLimiter> limits);

/// Who runs and waits.
[[nodiscard]] const serving::FairQueues& request_queues(const ApiServer& server) noexcept;

}  // namespace kintsugi::apiserver
