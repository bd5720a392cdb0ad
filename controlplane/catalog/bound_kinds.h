#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"

namespace kintsugi::controlplane {

/// The resources that APIBindings bring into logical clusters: one for each entry of
/// status.boundResources, made from the stored copy of its APIResourceSchema (bound_schema.h).
/// All clusters that bind the same schema under the same identity share one ResourceDef.
/// One instance per loop. Memory: about 200 bytes for each bound resource of a cluster.
/// Source: AM-492 to AM-509, AM-479, AM-503. Threads: its loop.
class BoundKinds {
 public:
  /// Reads what is stored and follows every change; watches of a resource end in the clusters where
  /// it is changed or removed. Watches over all clusters go on, but end when the schema under their
  /// identity is replaced. The server must outlive this or stop().
  void start(apiserver::ApiServer& server);
  void stop() noexcept { subscriptions_.clear(); }
  [[nodiscard]] bool ready() const noexcept { return ready_; }

  /// @param identity  "": whichever is bound. Null: not bound in this cluster.
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view cluster, std::string_view group,
                                            std::string_view plural,
                                            std::string_view identity = {}) const;
  /// As any cluster of this shard has it; of several schemas the one that was bound last.
  [[nodiscard]] apiserver::ResourcePtr find_anywhere(std::string_view group,
                                                     std::string_view plural,
                                                     std::string_view identity) const;
  /// For metadata alone: see Registry::find_any_identity. Cost: one pass over what is bound here.
  [[nodiscard]] apiserver::ResourcePtr find_any_identity(std::string_view group,
                                                         std::string_view plural) const;
  /// What a binding is of, as it was when that was decided (KK-173, KK-313).
  struct From {
    ExportRef ref;
    std::string uid;
    bool policed = false;  ///< the export had a maximal permission policy when it was seen last
    bool operator==(const From&) const = default;
  };
  /// The APIExport whose binding brings the resource into the cluster; null: none. Valid until the
  /// next change.
  [[nodiscard]] const From* export_of(std::string_view cluster, std::string_view group,
                                      std::string_view plural) const;
  /// See Registry: the APIBinding that brings it.
  [[nodiscard]] std::optional<apiserver::ServedBy> served_by(
      std::string_view cluster, const apiserver::ResourceDef& def) const;
  /// Calls back for each resource bound in the cluster, with the name of its APIBinding.
  template <typename Visit>
  void visit(std::string_view cluster, const Visit& visitor) const {
    if (const auto found = clusters_.find(cluster); found != clusters_.end()) {
      for (const auto& [name, binding] : found->second.bindings) {
        for (const Bound& bound : binding.resources) {
          visitor(bound.def, name);
        }
      }
    }
  }
  /// Calls back with uid and name of each schema that the cluster has bound.
  template <typename Visit>
  void visit_schemas(std::string_view cluster, const Visit& visitor) const {
    if (const auto found = clusters_.find(cluster); found != clusters_.end()) {
      for (const auto& [name, binding] : found->second.bindings) {
        for (const Bound& bound : binding.resources) {
          visitor(std::string_view(bound.kind->uid), std::string_view(bound.kind->origin.name));
        }
      }
    }
  }
  /// Calls back for each logical cluster that has bound an APIExport of this one. Cost: a look at
  /// every binding.
  template <typename Visit>
  void visit_consumers(std::string_view export_cluster, const Visit& visitor) const {
    for (const auto& [cluster, entry] : clusters_) {
      for (const auto& [name, binding] : entry.bindings) {
        if (binding.from.ref.cluster == export_cluster) {
          visitor(std::string_view(cluster));
          break;
        }
      }
    }
  }
  /// Moves whenever what visit() shows would change.
  [[nodiscard]] std::uint64_t generation(std::string_view cluster) const;
  /// Some cluster of this shard serves the group version by a binding, or holds an
  /// APIResourceSchema of it.
  [[nodiscard]] bool serves(std::string_view group, std::string_view version) const;
  /// A binding of this shard uses the schema of this UID.
  [[nodiscard]] bool uses_schema(std::string_view uid) const;

 private:
  struct Origin {  // of a schema: where it was when it was bound, and its conversion is
    std::string cluster, name;
    bool operator==(const Origin&) const = default;
  };
  struct Kind {  // a schema under an identity
    std::string uid, resource;
    Origin origin;
    apiserver::ResourcePtr def;
    std::weak_ptr<const apiserver::ResourceDef>
        leaving;  // the same for bindings that are being deleted
    std::size_t uses = 0;
  };
  using KindPtr = std::shared_ptr<Kind>;
  struct Bound {
    KindPtr kind;
    apiserver::ResourcePtr def;
  };
  using Resources = std::vector<Bound>;
  struct Binding {
    From from;
    Resources resources;
    std::uint64_t revision = 0;
  };
  struct Cluster {
    std::uint64_t generation = 0;
    std::map<std::string, Binding, std::less<>> bindings;
  };

  void apply(std::string_view cluster, std::string_view name, const krm::Json* binding);
  void count_versions(const krm::Json* schema, bool gone);
  void schema_came(std::string_view uid);
  void conversion_changed(const Origin& origin);
  void apply_stored(std::string_view cluster, std::string_view name);
  [[nodiscard]] Resources resources_of(std::string_view cluster, std::string_view name,
                                       const krm::Json* binding);
  [[nodiscard]] KindPtr kind_of(const std::string& uid, std::string_view identity,
                                const Origin& origin);
  [[nodiscard]] apiserver::ResourcePtr leaving_of(Kind& kind) const;
  void use(const Resources& resources);
  void release(const Resources& resources);

  apiserver::ApiServer* server_ = nullptr;
  bool ready_ = false;
  StringMap<Cluster> clusters_;
  StringMap<KindPtr> kinds_;                   // "<uid> <identity>"
  StringMap<std::vector<KindPtr>> resources_;  // "widgets.ex.io:<identity>", in use, oldest first
  /// By UID of a schema that is not stored (yet): bindings that name it.
  StringMap<std::set<std::pair<std::string, std::string>>> waiting_;
  StringMap<std::size_t> offered_;  // "ex.io/v1": APIResourceSchemas of it on this shard
  std::vector<std::shared_ptr<void>> subscriptions_;
};

}  // namespace kintsugi::controlplane
