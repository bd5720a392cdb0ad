#include "kinds/controllers/controllers.h"

#include "kinds/controllers/garbage_collector.h"
#include "kinds/controllers/internal/crd_lifecycle.h"
#include "kinds/controllers/internal/event_expiry.h"
#include "kinds/controllers/internal/namespace_lifecycle.h"
#include "kinds/controllers/internal/policy_status.h"
#include "kinds/controllers/internal/role_aggregation.h"
#include "kinds/controllers/quota_usage.h"

namespace kintsugi::kinds {

ControllerSet::ControllerSet(const apiserver::ControllerContext& context,
                             const ControllerParams& params) {
  members_.push_back(std::make_unique<GarbageCollector>(context));
  if (params.namespaces) {
    members_.push_back(std::make_unique<NamespaceLifecycle>(context));
    members_.push_back(std::make_unique<NamespaceDefaults>(context, params.namespace_defaults));
  }
  if (params.token_secrets.issue) {
    members_.push_back(std::make_unique<TokenSecrets>(context, params.token_secrets));
  }
  if (params.definitions) {
    members_.push_back(std::make_unique<CrdLifecycle>(context));
  }
  if (params.events) {
    members_.push_back(std::make_unique<EventExpiry>(context, params.event_life));
  }
  if (params.roles) {
    members_.push_back(std::make_unique<RoleAggregation>(context));
  }
  if (params.quotas) {
    members_.push_back(std::make_unique<QuotaUsage>(context));
  }
  if (params.policies) {
    members_.push_back(std::make_unique<PolicyStatus>(context));
  }
}

void ControllerSet::start() {
  for (const auto& member : members_) {
    member->start();
  }
}

void ControllerSet::add_cluster(std::string_view cluster) {
  for (const auto& member : members_) {
    member->add_cluster(cluster);
  }
}

void ControllerSet::remove_cluster(std::string_view cluster) {
  for (const auto& member : members_) {
    member->remove_cluster(cluster);
  }
}

std::size_t ControllerSet::busy() const {
  std::size_t sum = 0;
  for (const auto& member : members_) {
    sum += member->busy();
  }
  return sum;
}

}  // namespace kintsugi::kinds
