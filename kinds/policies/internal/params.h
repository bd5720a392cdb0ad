#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "base/error.h"
#include "kinds/policies/internal/compiled_policy.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// Parameters of one binding: nullopt where the policy has none, or the binding names none.
using ParamSet = std::vector<std::optional<krm::Json>>;

/// Where a policy's parameters are. All arguments outlive it.
class ParamSource {
 public:
  ParamSource(const apiserver::Registry& registry, const apiserver::ObjectReader& reader,
              std::string_view cluster, const std::optional<GroupVersionName>& kind);

  /// False: the cluster serves no such kind.
  [[nodiscard]] bool is_known() const noexcept { return !kind_ || def_ != nullptr; }
  [[nodiscard]] std::string unknown_text() const;

  /// What a binding names, ordered by name. Empty: nothing is found, and the request goes on.
  /// @param ns  of the request. @error why there are none
  [[nodiscard]] Expected<ParamSet> collect(const std::optional<ParamRef>& ref,
                                           std::string_view ns) const;

 private:
  const apiserver::ObjectReader& reader_;
  std::string_view cluster_;
  const std::optional<GroupVersionName>& kind_;
  apiserver::ResourcePtr def_;
};

/// The resource of a kind that a cluster serves in this version; null: none.
[[nodiscard]] apiserver::ResourcePtr find_kind(const apiserver::Registry& registry,
                                               std::string_view cluster,
                                               const GroupVersionName& kind);

}  // namespace kintsugi::kinds
