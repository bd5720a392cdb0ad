#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/policies/compiled_policy.h"
#include "apiserver/resource.h"
#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::apiserver {

/// Parameters of one binding: nullopt where the policy has none, or the binding names none.
using ParamSet = std::vector<std::optional<krm::Json>>;

/// Where a policy's parameters are. All arguments outlive it.
class ParamSource {
 public:
  ParamSource(const Registry& registry, const ObjectReader& reader, std::string_view cluster,
              const std::optional<GroupVersionName>& kind);

  /// False: the cluster serves no such kind.
  [[nodiscard]] bool is_known() const noexcept { return !kind_ || def_ != nullptr; }
  [[nodiscard]] std::string unknown_text() const;

  /// What a binding names, ordered by name. Empty: nothing is found, and the request goes on.
  /// @param ns  of the request. @error why there are none
  [[nodiscard]] Expected<ParamSet> collect(const std::optional<ParamRef>& ref,
                                           std::string_view ns) const;

 private:
  const ObjectReader& reader_;
  std::string_view cluster_;
  const std::optional<GroupVersionName>& kind_;
  ResourcePtr def_;
};

/// The resource of a kind that a cluster serves in this version; null: none.
[[nodiscard]] ResourcePtr find_kind(const Registry& registry, std::string_view cluster,
                                    const GroupVersionName& kind);

}  // namespace kintsugi::apiserver
