#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "aggregation/rights/permit.h"
#include "auth/authorizer.h"
#include "auth/request_header.h"
#include "base/error.h"
#include "http/handler.h"
#include "krm/request_info.h"

namespace kintsugi::proxy {

/// Who speaks for all members of a merged read, and what is asked there.
struct ReviewJudge {
  std::function<std::optional<aggregation::ReviewServer>()> server;  ///< as in ReviewPlan
  auth::Attributes right;                                            ///< instead of the read itself
  std::function<bool()> is_for_all;                                  ///< as in ReviewPlan
};

/// What `share: reviewed` asks before the proxy reads with its own credential; null: the shards
/// judge the caller themselves, as one whom the proxy does not know.
/// @param head  stamped. @param stamped  the names of the headers that tell the caller
/// @error headers that impersonate nobody
[[nodiscard]] Expected<std::shared_ptr<const aggregation::ReviewPlan>> review_plan(
    const http::RequestHead& head, const http::PeerInfo& peer, const krm::RequestInfo& info,
    const auth::RequestHeaderConfig& stamped, std::optional<ReviewJudge> judge);

}  // namespace kintsugi::proxy
