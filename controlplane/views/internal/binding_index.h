#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/views/internal/claims.h"

namespace kintsugi::controlplane {

/// What virtual workspaces need to know of an APIBinding at every request.
struct BindingInfo {
  std::string cluster, name;
  ExportRef target;                                        ///< cluster "": the export is not known
  bool leaving = false;                                    ///< being deleted
  std::vector<PermissionClaim> claims;                     ///< accepted ones
  std::vector<std::pair<std::string, std::string>> bound;  ///< group and plural
  bool operator==(const BindingInfo&) const = default;

  [[nodiscard]] bool has_bound(std::string_view group, std::string_view plural) const noexcept;
  /// The accepted claim on a resource (PermissionClaim::is_about), null when there is none.
  [[nodiscard]] const PermissionClaim* claim_on(std::string_view group, std::string_view resource,
                                                std::string_view identity,
                                                const IdentityCheck& in_root) const;
};

/// The APIBindings of this shard, as stored. One instance per loop, fed by ApiServer::on_change.
/// Memory: about 300 bytes for each binding and 200 for each of its claims. Threads: its loop.
class BindingIndex {
 public:
  /// `now` null: gone; `before` null: new.
  using Listener = std::function<void(const BindingInfo* now, const BindingInfo* before)>;

  explicit BindingIndex(ApiCatalog& catalog) : catalog_(catalog) {}
  /// Reads what is stored and follows every change. The server must outlive this or stop(), the
  /// catalog this.
  void start(apiserver::ApiServer& server);
  void stop() noexcept { subscription_.reset(); }
  /// Called after each change, on the loop.
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }

  /// The binding of an export in a cluster, null when there is none. Valid until the next change.
  [[nodiscard]] const BindingInfo* find(std::string_view cluster, const ExportRef& target) const;
  [[nodiscard]] const BindingInfo* named(std::string_view cluster, std::string_view name) const;
  /// Whether any binding of the cluster accepts a claim.
  [[nodiscard]] bool has_claims(std::string_view cluster) const;
  /// Calls back for each binding of the cluster, by name.
  template <typename Visit>
  void visit(std::string_view cluster, const Visit& visitor) const {
    if (const auto found = clusters_.find(cluster); found != clusters_.end()) {
      for (const auto& [name, binding] : found->second) {
        visitor(binding);
      }
    }
  }

  /// The export that a binding is of, as far as it is known.
  [[nodiscard]] ExportRef target_of(std::string_view cluster, const krm::Json& binding) const;

  /// One object, null when it is gone. For feeding by hand.
  void put(std::string_view cluster, std::string_view name, const krm::Json* binding);

 private:
  void resolve_again(const ExportRef& ref);

  ApiCatalog& catalog_;
  const apiserver::ObjectReader* reader_ = nullptr;
  StringMap<std::map<std::string, BindingInfo, std::less<>>> clusters_;
  std::set<std::pair<std::string, std::string>> unresolved_;  // cluster and name
  std::vector<Listener> listeners_;
  std::shared_ptr<void> subscription_;
};

}  // namespace kintsugi::controlplane
