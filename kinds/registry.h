#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "base/strings.h"

namespace kintsugi::apiserver {
class ApiServer;
}  // namespace kintsugi::apiserver

namespace kintsugi::kinds {

/// Fixed kinds, and those of the CustomResourceDefinitions of each logical cluster that are
/// Established. Threads: its loop. Lifetime: the server that it follows outlives follow()'s effects
/// until stop() or destruction, so destroy it before the server, or call stop().
class StaticPlusCrdRegistry final : public apiserver::Registry {
 public:
  struct StaticKind {
    apiserver::ResourcePtr def;
    /// In which logical clusters it is served; empty: in all. Wildcard requests see every kind.
    std::function<bool(std::string_view cluster)> served_in;
  };
  explicit StaticPlusCrdRegistry(std::vector<StaticKind> kinds);

  /// One more fixed kind, in every cluster.
  void add(StaticKind kind);
  /// Reads the definitions in the store and follows their changes: discovery changes before anybody
  /// sees the definition's new state; watches of a changed or removed resource end. Afterwards
  /// ready() holds. Without it the registry has only its fixed kinds and is not ready.
  void follow(apiserver::ApiServer& server);
  /// For servers without definitions: ready at once.
  void set_ready() noexcept { ready_ = true; }
  void stop() noexcept { subscription_.reset(); }

  [[nodiscard]] apiserver::ResourcePtr find(std::string_view cluster, std::string_view group,
                                            std::string_view resource) const override;
  /// Cost: one lookup in each cluster that has definitions.
  [[nodiscard]] apiserver::ResourcePtr find_any_identity(std::string_view group,
                                                         std::string_view resource) const override;
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view cluster) const override;
  [[nodiscard]] std::uint64_t generation(std::string_view cluster) const override;
  [[nodiscard]] std::optional<apiserver::ServedBy> served_by(
      std::string_view cluster, const apiserver::ResourceDef& def) const override;
  [[nodiscard]] bool ready(std::string_view) const override { return ready_; }

 private:
  struct Definition {
    apiserver::ResourcePtr def;
    std::string fingerprint;  ///< of what the resource is made from
    std::uint64_t revision = 0;
  };
  struct Cluster {
    std::uint64_t generation = 0;
    StringMap<Definition> definitions;  ///< by qualified resource
  };
  void apply(apiserver::ApiServer& server, std::string_view cluster, std::string_view name,
             const krm::Json* crd);

  std::vector<StaticKind> static_;
  StringMap<std::size_t> static_index_;  ///< by qualified resource
  StringMap<Cluster> clusters_;
  std::uint64_t static_generation_ = 1;
  bool ready_ = false;
  std::shared_ptr<void> subscription_;
};

}  // namespace kintsugi::kinds
