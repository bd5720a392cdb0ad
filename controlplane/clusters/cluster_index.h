#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"

namespace kintsugi::controlplane {

/// What a shard needs to know of one of its logical clusters at every request.
struct ClusterInfo {
  std::string name;
  std::string path;   ///< canonical path, derived (KK-103); the name when it has none
  std::string type;   ///< annotation internal.tenancy.kcp.io/type ("root:universal"), may be empty
  std::string phase;  ///< status.phase
  /// Annotation authorization.kcp.io/required-groups: "a,b;c" lets in who is in a and b, or in c.
  std::string required_groups;
  bool asks_for_groups = false;  ///< it is there: an empty one lets in nobody (KK-304)
  bool inactive = false;         ///< annotation core.kcp.io/inactive or internal.kcp.io/inactive
  bool deleting = false;
  /// @{ spec.owner when it is a Workspace: where that is, its name and uid.
  std::string owner_cluster = {}, owner_name = {}, owner_uid = {};
  /// @}
  std::string uid = {};  ///< of the LogicalCluster
  /// `path` follows from a Workspace of this shard, or from the name: nobody can claim it.
  bool path_is_sure = false;
  bool operator==(const ClusterInfo&) const = default;
};

/// The logical clusters and workspaces of this shard. One instance per loop.
/// A Workspace leads to a logical cluster of this shard only when that names it, with uid, as its
/// owner (KK-064). Paths are derived (KK-103): path of the parent and name of the Workspace where
/// the parent is here; `user:<name>` for the home of the one who made it; `root`. Where the parent
/// is elsewhere, what that shard said when it made the cluster counts (server_facts.h), never a
/// later word. Of two clusters with one path the one whose path is sure has it, else the first.
/// Source: AM-470 to AM-473, KK-362. Threads: its loop.
class ClusterIndex {
 public:
  /// `now` null: gone; `before` null: new.
  using Listener = std::function<void(const ClusterInfo* now, const ClusterInfo* before)>;

  /// Reads what is stored and follows every change. The server must outlive this or stop().
  void start(apiserver::ApiServer& server);
  void stop() noexcept { subscriptions_.clear(); }
  /// Called after each change of a cluster, in order of registration, on the loop.
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }

  /// nullptr: no such cluster here. Valid until the next change.
  [[nodiscard]] const ClusterInfo* find(std::string_view name) const;
  /// The same, but asks the store before it says no: another loop may have seen the cluster first.
  [[nodiscard]] const ClusterInfo* find_now(std::string_view name);

  enum class Where : std::uint8_t { kHere, kElsewhere, kUnknown };
  struct Answer {
    Where where = Where::kUnknown;
    std::string cluster;  ///< logical cluster name; empty for kUnknown
  };
  /// A name or a path: "root:a:b", or "<name>:b" below a cluster of this shard. Paths lead through
  /// workspaces; kElsewhere when one leads to a cluster that is not here.
  [[nodiscard]] Answer resolve(std::string_view path);
  /// Canonical path of a cluster, its name when it is not known.
  [[nodiscard]] std::string path_of(std::string_view cluster) const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::size_t size() const noexcept { return clusters_.size(); }

  /// One object, null when it is gone. For feeding by hand.
  void put_cluster(std::string_view name, const krm::Json* logical_cluster);
  void put_workspace(std::string_view cluster, std::string_view name, const krm::Json* workspace);

 private:
  struct Child {
    std::string cluster, uid;  // spec.cluster, of the Workspace
  };
  [[nodiscard]] Answer walk(std::string_view start, std::string_view rest);
  void derive_path(ClusterInfo& info, const krm::Json* object, const ClusterInfo* before) const;
  void settle_path(ClusterInfo& info);
  void follow_path(std::string_view name);
  void change(const std::optional<ClusterInfo>& before, std::optional<ClusterInfo> now);

  StringMap<ClusterInfo> clusters_;
  StringMap<std::string> by_path_;                      // canonical path -> name
  std::map<std::string, Child, std::less<>> children_;  // "<parent> <workspace>"
  std::vector<Listener> listeners_;
  std::vector<std::shared_ptr<void>> subscriptions_;
  const apiserver::ObjectReader* reader_ = nullptr;
};

}  // namespace kintsugi::controlplane
