#include "workers/messaging/model/binding.h"

#include <algorithm>
#include <tuple>

#include "workers/messaging/model/condition_of.h"

namespace kintsugi::workers {

namespace {

std::string path_of(const ObjectIdentity& id) { return id.ns + "/" + id.name; }

}  // namespace

SelectorRank selector_rank(const NamespaceSelector& selector, const NamespaceView& ns) noexcept {
  if (selector.any) {
    return SelectorRank::kAny;
  }
  if (std::find(selector.names.begin(), selector.names.end(), ns.name) != selector.names.end()) {
    return SelectorRank::kName;
  }
  static const krm::Json kNoLabels;
  return selector.has_labels &&
                 selector.labels.matches(ns.labels != nullptr ? *ns.labels : kNoLabels)
             ? SelectorRank::kLabels
             : SelectorRank::kNone;
}

Chosen<MessagingInfra> choose_infra(std::span<const InfraCandidate> infras, const NamespaceView& ns,
                                    const ObjectRef& ref, std::string_view bound) {
  Chosen<MessagingInfra> chosen;
  if (!ref.empty()) {
    const std::string_view where = ref.ns.empty() ? ns.name : std::string_view(ref.ns);
    const std::string path = std::string(where) + "/" + ref.name;
    const InfraCandidate* named = nullptr;  // of several clusters the oldest
    for (const InfraCandidate& one : infras) {
      if (one.infra->id.ns == where && one.infra->id.name == ref.name &&
          (named == nullptr || is_older(one.infra->id, named->infra->id))) {
        named = &one;
      }
    }
    if (named == nullptr) {
      chosen.reason = "InfraNotFound";
      chosen.message = "there is no infra " + path;
    } else if (selector_rank(named->infra->selector, ns) == SelectorRank::kNone) {
      chosen.reason = "NamespaceNotSelected";
      chosen.message = "infra " + path + " is not for namespace " + std::string(ns.name);
    } else if (named->deleting && path != bound) {
      chosen.reason = "InfraTerminating";
      chosen.message = "infra " + path + " is being deleted";
    } else {
      chosen.object = named->infra;
    }
    return chosen;
  }
  const auto order = [&ns](const MessagingInfra& infra) {
    return selector_rank(infra.selector, ns);
  };
  for (const InfraCandidate& one : infras) {
    const bool stays = !bound.empty() && path_of(one.infra->id) == bound;
    if (order(*one.infra) == SelectorRank::kNone || (!stays && (!one.active || one.deleting))) {
      continue;
    }
    const MessagingInfra* best = chosen.object;
    const bool best_stays = best != nullptr && !bound.empty() && path_of(best->id) == bound;
    if (best == nullptr || (stays && !best_stays) ||
        (stays == best_stays &&
         (order(*one.infra) < order(*best) ||
          (order(*one.infra) == order(*best) && is_older(one.infra->id, best->id))))) {
      chosen.object = one.infra;
    }
  }
  if (chosen.object == nullptr) {
    chosen.reason = "InfraNotFound";
    chosen.message = "no active infra is for namespace " + std::string(ns.name);
  }
  return chosen;
}

std::vector<LookupPlace> lookup_places(const ObjectIdentity& space, const ObjectRef& ref,
                                       std::span<const std::string> infra_clusters) {
  std::vector<LookupPlace> places;
  const auto add = [&places](LookupPlace place) {
    if (std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  };
  if (!ref.ns.empty()) {
    add({space.cluster, ref.ns});
    for (const std::string& cluster : infra_clusters) {
      add({cluster, ref.ns});
    }
    return places;
  }
  add({space.cluster, space.ns});
  add({space.cluster, std::string(kInfraNamespace)});
  for (const std::string& cluster : infra_clusters) {
    add({cluster, std::string(kInfraNamespace)});
  }
  return places;
}

Chosen<MessagingPlan> choose_plan(const MessagingSpace& space,
                                  std::span<const MessagingPlan* const> plans,
                                  const NamespaceView& ns,
                                  std::span<const std::string> infra_clusters) {
  Chosen<MessagingPlan> chosen;
  const auto takes = [&ns](const MessagingPlan& plan) { return selector_rank(plan.selector, ns); };
  if (space.plan.empty()) {
    const auto places = lookup_places(space.id, {}, infra_clusters);
    for (const MessagingPlan* plan : plans) {
      if (plan->tenant_plan != space.is_tenant() || !plan->is_default || !plan->shared ||
          takes(*plan) == SelectorRank::kNone ||
          std::find(places.begin(), places.end(), LookupPlace{plan->id.cluster, plan->id.ns}) ==
              places.end()) {
        continue;
      }
      if (chosen.object == nullptr || takes(*plan) < takes(*chosen.object) ||
          (takes(*plan) == takes(*chosen.object) && is_older(plan->id, chosen.object->id))) {
        chosen.object = plan;
      }
    }
    if (chosen.object == nullptr && !space.is_tenant()) {
      chosen.reason = "PlanNotFound";
      chosen.message = "spec.plan is required";
    }
    return chosen;
  }
  for (const LookupPlace& place : lookup_places(space.id, space.plan, infra_clusters)) {
    for (const MessagingPlan* plan : plans) {
      if (plan->tenant_plan != space.is_tenant() || plan->id.name != space.plan.name ||
          plan->id.cluster != place.cluster || plan->id.ns != place.ns) {
        continue;
      }
      if (!plan->shared) {
        chosen.reason = "WrongPlanType";
        chosen.message = "plan " + path_of(plan->id) + " is of another type than shared";
      } else if (takes(*plan) == SelectorRank::kNone) {
        chosen.reason = "NamespaceNotSelected";
        chosen.message =
            "plan " + path_of(plan->id) + " is not for namespace " + std::string(ns.name);
      } else {
        chosen.object = plan;
      }
      return chosen;  // the first place that has one of that name decides
    }
  }
  chosen.reason = "PlanNotFound";
  chosen.message =
      "there is no plan " +
      (space.plan.ns.empty() ? space.plan.name : space.plan.ns + "/" + space.plan.name);
  return chosen;
}

std::optional<Condition> space_refused(const MessagingSpace& space, const MessagingPlan& plan,
                                       const MessagingInfra& infra) {
  if (space.transactions && !plan.transactions) {
    return refusal("PlanFound", "CapabilityNotInPlan",
                   "plan " + path_of(plan.id) + " does not have capability transactions");
  }
  const std::string& wanted = space.authentication_service;
  if (!wanted.empty() && wanted != infra.routers.authentication_service) {
    return refusal("InfraBound", "AuthenticationServiceMismatch",
                   "infra " + path_of(infra.id) + " uses " +
                       (infra.routers.authentication_service.empty()
                            ? std::string("no authentication service")
                            : "authentication service " + infra.routers.authentication_service) +
                       ", not " + wanted);
  }
  return std::nullopt;
}

std::optional<Condition> infra_moved(const ObjectIdentity& bound, const ObjectIdentity& wanted,
                                     std::int64_t addresses) {
  const auto who = [](const ObjectIdentity& id) { return std::tie(id.cluster, id.ns, id.name); };
  if (addresses == 0 || who(bound) == who(wanted)) {
    return std::nullopt;
  }
  return refusal("InfraBound", "InfraImmutable",
                 "its " + std::to_string(addresses) + " addresses are at infra " + path_of(bound) +
                     "; the plan now names " + path_of(wanted) + ", nothing is moved");
}

}  // namespace kintsugi::workers
