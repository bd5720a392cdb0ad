#include "kinds/policies/internal/policy_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kinds/policies/internal/admission_scope.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

/// What a policy is compiled from.
Json essence(const Json& object) {
  Json out = Json::object();
  out.make({"metadata", "name"}) = object.text({"metadata", "name"});
  if (const Json* spec = object.find("spec")) {
    out["spec"] = *spec;
  }
  return out;
}

}  // namespace

template <class Compiled>
void PolicyIndexOf<Compiled>::start(apiserver::ApiServer& server) {
  const NoteRule of_policy = [this](std::string_view cluster, std::string_view name,
                                    const Json* object) { note_policy(cluster, name, object); };
  const NoteRule of_binding = [this](std::string_view cluster, std::string_view name,
                                     const Json* object) { note_binding(cluster, name, object); };
  subscriptions_ = follow_rules(server, policies_, of_policy);
  std::vector<std::shared_ptr<void>> more = follow_rules(server, bindings_, of_binding);
  subscriptions_.insert(subscriptions_.end(), std::make_move_iterator(more.begin()),
                        std::make_move_iterator(more.end()));
}

template <class Compiled>
void PolicyIndexOf<Compiled>::note_policy(std::string_view cluster, std::string_view name,
                                          const Json* object) {
  Cluster& known = clusters_[std::string(cluster)];
  const auto found = known.policies.find(name);
  if (object == nullptr) {
    if (found != known.policies.end()) {
      known.policies.erase(found);
    }
  } else {
    Json now = essence(*object);
    if (found != known.policies.end() && found->second.object == now) {
      return;
    }
    known.policies.insert_or_assign(std::string(name), Policy{std::move(now), nullptr});
  }
  changed(cluster, known);
}

template <class Compiled>
void PolicyIndexOf<Compiled>::note_binding(std::string_view cluster, std::string_view name,
                                           const Json* object) {
  Cluster& known = clusters_[std::string(cluster)];
  if (object != nullptr) {
    known.bindings.insert_or_assign(std::string(name),
                                    std::make_shared<const PolicyBinding>(*object));
  } else if (const auto found = known.bindings.find(name); found != known.bindings.end()) {
    known.bindings.erase(found);
  }
  changed(cluster, known);
}

template <class Compiled>
void PolicyIndexOf<Compiled>::changed(std::string_view name, Cluster& cluster) {
  cluster.hooks.reset();
  cluster.bound = std::any_of(
      cluster.bindings.begin(), cluster.bindings.end(),
      [&](const auto& entry) { return cluster.policies.contains(entry.second->policy); });
  if (cluster.policies.empty() && cluster.bindings.empty()) {
    if (const auto found = clusters_.find(name); found != clusters_.end()) {
      clusters_.erase(found);
    }
  }
}

template <class Compiled>
bool PolicyIndexOf<Compiled>::has(std::string_view cluster) const {
  if (clusters_.empty()) {
    return false;
  }
  const auto found = clusters_.find(cluster);
  return found != clusters_.end() && found->second.bound;
}

template <class Compiled>
std::shared_ptr<const std::vector<typename PolicyIndexOf<Compiled>::Hook>>
PolicyIndexOf<Compiled>::hooks(std::string_view cluster) {
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return std::make_shared<const std::vector<Hook>>();
  }
  Cluster& known = found->second;
  if (known.hooks != nullptr) {
    return known.hooks;
  }
  auto made = std::make_shared<std::vector<Hook>>();
  for (auto& [name, policy] : known.policies) {
    Hook hook;
    for (const auto& [binding_name, binding] : known.bindings) {
      if (binding->policy == name) {
        hook.bindings.push_back(binding);
      }
    }
    if (hook.bindings.empty()) {
      continue;
    }
    if (policy.compiled == nullptr) {
      policy.compiled = std::make_shared<const Compiled>(policy.object);
    }
    hook.policy = policy.compiled;
    made->push_back(std::move(hook));
  }
  known.hooks = std::move(made);
  return known.hooks;
}

template class PolicyIndexOf<CompiledPolicy>;
template class PolicyIndexOf<MutatingPolicy>;

}  // namespace kintsugi::kinds
