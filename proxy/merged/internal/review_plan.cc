#include "proxy/merged/internal/review_plan.h"

#include <string>
#include <utility>

#include "auth/impersonation.h"
#include "auth/impersonation_modes.h"
#include "serving/identity.h"

namespace kintsugi::proxy {
namespace {

/// The rights that a list or watch of one server takes.
auth::Attributes attributes_of(const krm::RequestInfo& info) {
  auth::Attributes out;
  out.verb = info.verb;
  out.group = info.group;
  out.version = info.version;
  out.resource = info.resource;
  out.ns = info.ns;
  out.name = info.name;
  return out;
}

auth::ReviewSelectors selectors_of(const krm::RequestInfo& info) {
  return {std::string(info.query.get("labelSelector").value_or("")),
          std::string(info.query.get("fieldSelector").value_or(""))};
}

}  // namespace

Expected<std::shared_ptr<const aggregation::ReviewPlan>> review_plan(
    const http::RequestHead& head, const http::PeerInfo& peer, const krm::RequestInfo& info,
    const auth::RequestHeaderConfig& stamped, std::optional<ReviewJudge> judge) {
  const serving::ConnectionIdentity* identity = serving::identity_of(peer);
  // Whom shards are told of, with nothing that is kept from them.
  const auto caller = auth::read_identity_headers(head.headers, stamped);
  if (identity == nullptr || !identity->user || !caller) {
    return std::shared_ptr<const aggregation::ReviewPlan>();
  }
  auto wanted = auth::read_impersonation(head.headers, *caller);
  if (!wanted) {
    return fail(std::move(wanted.error()));
  }
  auth::Attributes read = attributes_of(info);
  read.user = *caller;
  const auth::ReviewSelectors selectors = selectors_of(info);
  aggregation::ReviewPlan plan;
  plan.caller = caller->name;
  aggregation::ReviewPlan::Check right{read, selectors};
  if (judge) {
    plan.judge = std::move(judge->server);
    plan.is_for_all = std::move(judge->is_for_all);
    right = {std::move(judge->right)};
    right.attributes.user = *caller;
  }
  if (!*wanted) {
    plan.ways = {{std::move(right)}};
    return std::make_shared<const aggregation::ReviewPlan>(std::move(plan));
  }
  plan.caller += " as " + (*wanted)->name;
  for (auth::Mode& mode : auth::impersonation_modes(**wanted, read)) {
    aggregation::ReviewPlan::Way& way = plan.ways.emplace_back();
    for (auth::ModeStep& step : mode.steps) {
      // The first right of a constrained mode is one to the read, on behalf of somebody.
      const bool on_read = way.empty() && mode.name != auth::ModeName::kClassic;
      way.push_back({std::move(step.attributes), on_read ? selectors : auth::ReviewSelectors(),
                     step.spares, std::move(step.fault)});
    }
    right.attributes.user = std::move(mode.user);
    way.push_back(right);
  }
  return std::make_shared<const aggregation::ReviewPlan>(std::move(plan));
}

}  // namespace kintsugi::proxy
