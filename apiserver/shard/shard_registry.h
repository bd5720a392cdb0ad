#pragma once

#include "apiserver/registry.h"
#include "apiserver/shard/bound_kinds.h"

namespace kintsugi::apiserver {

/// What a logical cluster of a shard serves: fixed kinds, then its CustomResourceDefinitions, then
/// what its APIBindings bring; the first hides the others. "<plural>:<identity>" means the resource
/// of one APIExport: in a cluster that has bound it, or in "*" as any cluster of this shard has it.
/// Source: AM-477, AM-479. Threads: one loop. Both parts outlive it.
class ShardRegistry final : public Registry {
 public:
  ShardRegistry(const StaticPlusCrdRegistry& own, const BoundKinds& bound)
      : own_(own), bound_(bound) {}

  [[nodiscard]] ResourcePtr find(std::string_view cluster, std::string_view group,
                                 std::string_view resource) const override;
  [[nodiscard]] ResourcePtr find_any_identity(std::string_view group,
                                              std::string_view resource) const override {
    return bound_.find_any_identity(group, resource);
  }
  [[nodiscard]] std::vector<ResourcePtr> all(std::string_view cluster) const override;
  [[nodiscard]] std::uint64_t generation(std::string_view cluster) const override;
  [[nodiscard]] bool ready(std::string_view cluster) const override {
    return own_.ready(cluster) && bound_.ready();
  }
  [[nodiscard]] bool is_known_elsewhere(std::string_view group,
                                        std::string_view version) const override {
    return bound_.serves(group, version);
  }

 private:
  const StaticPlusCrdRegistry& own_;
  const BoundKinds& bound_;
};

}  // namespace kintsugi::apiserver
