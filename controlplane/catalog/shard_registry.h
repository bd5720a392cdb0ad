#pragma once

#include "controlplane/catalog/bound_kinds.h"
#include "controlplane/catalog/virtual_resources.h"
#include "kinds/registry.h"

namespace kintsugi::controlplane {

/// What a logical cluster of a shard serves: fixed kinds, then its CustomResourceDefinitions, then
/// what its APIBindings bring; the first hides the others. "<plural>:<identity>" means the resource
/// of one APIExport: in a cluster that has bound it, or in "*" as any cluster of this shard has it.
/// Source: AM-477, AM-479. Threads: one loop. Both parts outlive it.
class ShardRegistry final : public apiserver::Registry {
 public:
  ShardRegistry(const kinds::StaticPlusCrdRegistry& own, const BoundKinds& bound)
      : own_(own), bound_(bound) {}
  /// Which bound resources can only be read; outlives this.
  void use(const VirtualResources& virtuals) noexcept { virtuals_ = &virtuals; }

  [[nodiscard]] apiserver::ResourcePtr find(std::string_view cluster, std::string_view group,
                                            std::string_view resource) const override;
  [[nodiscard]] apiserver::ResourcePtr find_any_identity(std::string_view group,
                                                         std::string_view resource) const override {
    apiserver::ResourcePtr bound = bound_.find_any_identity(group, resource);
    return bound != nullptr ? bound : own_.find_any_identity(group, resource);
  }
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view cluster) const override;
  [[nodiscard]] std::uint64_t generation(std::string_view cluster) const override;
  [[nodiscard]] std::optional<apiserver::ServedBy> served_by(
      std::string_view cluster, const apiserver::ResourceDef& def) const override {
    return def.identity.empty() ? own_.served_by(cluster, def) : bound_.served_by(cluster, def);
  }
  [[nodiscard]] bool ready(std::string_view cluster) const override {
    return own_.ready(cluster) && bound_.ready();
  }
  /// kcp's shard shows an empty list for every group version that may be there (KK-382).
  [[nodiscard]] bool is_known_elsewhere(std::string_view group,
                                        std::string_view /*version*/) const override {
    return !group.empty();
  }

 private:
  [[nodiscard]] apiserver::ResourcePtr as_shown(std::string_view cluster,
                                                apiserver::ResourcePtr def) const;

  const kinds::StaticPlusCrdRegistry& own_;
  const BoundKinds& bound_;
  const VirtualResources* virtuals_ = nullptr;  // null: none
};

}  // namespace kintsugi::controlplane
