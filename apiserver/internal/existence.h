#pragma once

#include <functional>

#include "apiserver/internal/request.h"
#include "base/error.h"

/// What those hear of a logical cluster who may not enter it: the same as of none. Source: SE-034,
/// SE-160, SE-161. Without TenantRules::cluster_of nothing is hidden.
namespace kintsugi::apiserver::internal {

/// Sends the error to a caller with `access` in the cluster that the target names, E1 to others.
void refuse(const RequestPtr& request, Error error);

/// Health checks, and what a shard has for itself but not below a cluster (KK-366, KK-367), have
/// rules of their own here. False: the request is like any other.
[[nodiscard]] bool has_own_access_rule(const Request& request);
/// By that rule; E1 where it does not hold.
void with_own_access_rule(const RequestPtr& request, std::function<void()> allowed);

/// Endpoints of the shard as a whole, which a request below a logical cluster does not reach: 501.
[[nodiscard]] bool is_shard_endpoint(const Request& request);
void answer_shard_endpoint(const RequestPtr& request);

}  // namespace kintsugi::apiserver::internal
