#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"
#include "kinds/policies/internal/compiled_policy.h"
#include "kinds/policies/mutating/mutating_policy.h"

namespace kintsugi::kinds {

/// The policies of one kind of every logical cluster with their bindings, as they were last
/// committed: a change counts when its event has come to the loop. Policies are compiled when a
/// request first meets them, once per spec. Threads: one loop.
template <class Compiled>
class PolicyIndexOf {
 public:
  using CompiledPtr = std::shared_ptr<const Compiled>;
  /// @param policies, bindings  plurals of their kinds
  PolicyIndexOf(std::string_view policies, std::string_view bindings)
      : policies_(policies), bindings_(bindings) {}
  /// Reads what is there and follows changes. @param server outlives this.
  void start(apiserver::ApiServer& server);

  /// A policy with its bindings, in the order of their names.
  struct Hook {
    CompiledPtr policy;
    std::vector<PolicyBindingPtr> bindings;
  };
  [[nodiscard]] bool empty() const noexcept { return clusters_.empty(); }
  /// Whether a cluster has policies that are bound. Cost: two look-ups, none without any policy.
  [[nodiscard]] bool has(std::string_view cluster) const;
  /// Those, in the order of their names; shared, as requests keep them while they wait.
  [[nodiscard]] std::shared_ptr<const std::vector<Hook>> hooks(std::string_view cluster);

 private:
  struct Policy {
    krm::Json object;  ///< metadata.name and spec
    CompiledPtr compiled;
  };
  struct Cluster {
    std::map<std::string, Policy, std::less<>> policies;
    std::map<std::string, PolicyBindingPtr, std::less<>> bindings;
    bool bound = false;
    std::shared_ptr<const std::vector<Hook>> hooks;  ///< null: to be made
  };
  void note_policy(std::string_view cluster, std::string_view name, const krm::Json* object);
  void note_binding(std::string_view cluster, std::string_view name, const krm::Json* object);
  void changed(std::string_view name, Cluster& cluster);

  std::string_view policies_, bindings_;
  StringMap<Cluster> clusters_;
  std::vector<std::shared_ptr<void>> subscriptions_;
};
using PolicyIndex = PolicyIndexOf<CompiledPolicy>;
using MutatingPolicyIndex = PolicyIndexOf<MutatingPolicy>;
extern template class PolicyIndexOf<CompiledPolicy>;
extern template class PolicyIndexOf<MutatingPolicy>;

}  // namespace kintsugi::kinds
