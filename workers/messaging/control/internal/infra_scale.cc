#include "workers/messaging/control/internal/infra_scale.h"

#include <algorithm>

namespace kintsugi::workers {

namespace {

constexpr Duration kWhileChanging = seconds(1), kWhileSettled = seconds(10);

void connect(OwnedInfra& infra) {
  std::vector<ComponentEndpoint> routers, brokers;
  for (const Component& one : infra.components) {
    if (!one.endpoint.address.empty()) {
      (one.broker ? brokers : routers).push_back(one.endpoint);
    }
  }
  infra.work->set_components(routers, brokers);
}

}  // namespace

bool has_operators(const MessagingInfra& infra) noexcept {
  return operator_makes_routers(infra) || operator_makes_brokers(infra);
}

void follow_components(OwnedInfra& infra, Operators::Known* known) {
  static const OperatorView kNone;
  infra.components = known == nullptr
                         ? operator_components(infra.object, kNone, {})
                         : operator_components(infra.object, known->view, known->components);
  if (known != nullptr) {
    known->components = infra.components;
    infra.size =
        operator_makes_routers(infra.object) ? stored_router_size(infra.object, known->view) : 0;
  }
  connect(infra);
}

bool is_wanted(const OwnedInfra& infra, const Operators::Known* known) {
  return !infra.object.on_demand || known == nullptr || !infra.spaces.empty() ||
         stored_router_size(infra.object, known->view) > 0 ||
         !stored_brokers(infra.object, known->view).empty() ||
         !operator_makes_routers(infra.object);
}

OperatorPlan scale(OwnedInfra& infra, Operators::Known& known) {
  if (!is_wanted(infra, &known)) {
    return {};
  }
  const MessagingInfra& object = infra.object;
  const bool complete = infra.work->is_complete();
  infra.size = 0;
  if (operator_makes_routers(object)) {
    infra.size = router_size(object, infra.admission.requested().connections,
                             stored_router_size(object, known.view), complete);
  }
  std::vector<std::int64_t> brokers;
  if (operator_makes_brokers(object)) {
    brokers = broker_indexes(stored_brokers(object, known.view), infra.scheduler.brokers_wanted(),
                             complete);
  }
  const bool fewer = std::erase_if(infra.components, [&](const Component& one) {
                       const bool goes =
                           one.broker && operator_makes_brokers(object) &&
                           !std::binary_search(brokers.begin(), brokers.end(), one.index);
                       if (goes) {
                         infra.scheduler.broker_gone(one.endpoint.host);
                         std::erase(infra.brokers, one.endpoint.host);
                       }
                       return goes;
                     }) > 0;
  if (fewer) {
    known.components = infra.components;
    connect(infra);
  }
  OperatorPlan plan = operator_plan(object, infra.size, brokers, known.view);
  // What is not served, or not ours to write, is read again before it is written again.
  const auto refused = [&known](bool broker) {
    return (broker ? known.brokers_fault : known.routers_fault).has_value();
  };
  std::erase_if(plan.apply, [&refused](const krm::Json& one) {
    return refused(one.text({"apiVersion"}) == kArtemisVersion);
  });
  std::erase_if(plan.remove,
                [&refused](const OperatorPlan::Removal& one) { return refused(one.broker); });
  for (const std::string& name : plan.taken) {
    const bool broker = std::any_of(known.view.brokers.begin(), known.view.brokers.end(),
                                    [&name](const krm::Json& one) {
                                      return one.text({"metadata", "name"}) == name;
                                    });
    Condition why;
    why.type = broker ? "BrokersCreated" : "RoutersCreated";
    why.status = ConditionStatus::kFalse;
    why.reason = "NameTaken";
    why.message = name + " is somebody else's";
    (broker ? known.brokers_fault : known.routers_fault) = std::move(why);
  }
  return plan;
}

Duration operators_age(const OwnedInfra& infra, const Operators::Known& known) {
  if (known.routers_fault || known.brokers_fault) {
    return kWhileSettled;
  }
  const auto components = static_cast<std::int64_t>(infra.work->components().size());
  const bool connected =
      std::all_of(infra.work->components().begin(), infra.work->components().end(),
                  [](const auto& one) { return one->pipeline->is_connected(); });
  const std::int64_t routers =
      operator_makes_routers(infra.object)
          ? infra.object.declared_routers(infra.size)
          : static_cast<std::int64_t>(infra.object.routers.endpoints.size());
  const std::int64_t brokers =
      operator_makes_brokers(infra.object)
          ? std::max(infra.scheduler.brokers_wanted(),
                     static_cast<std::int64_t>(stored_brokers(infra.object, known.view).size()))
          : static_cast<std::int64_t>(infra.object.brokers.endpoints.size());
  return connected && components == routers + brokers ? kWhileSettled : kWhileChanging;
}

}  // namespace kintsugi::workers
