#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"

namespace kintsugi::apiserver {

/// What a shard needs to know of one of its logical clusters at every request.
struct ClusterInfo {
  std::string name;
  std::string path;   ///< annotation kcp.io/path; the name when it has none
  std::string type;   ///< annotation internal.tenancy.kcp.io/type ("root:universal"), may be empty
  std::string phase;  ///< status.phase
  /// Annotation authorization.kcp.io/required-groups: "a,b;c" lets in who is in a and b, or in c.
  std::string required_groups;
  bool inactive = false;  ///< annotation core.kcp.io/inactive or internal.kcp.io/inactive
  bool deleting = false;
  bool operator==(const ClusterInfo&) const = default;
};

/// The logical clusters and workspaces of this shard, as stored. One instance per loop.
/// Source: specs/front-proxy.md 17.3, specs/api-machinery.md AM-470 to AM-473. Threads: its loop.
class ClusterIndex {
 public:
  /// `now` null: gone; `before` null: new.
  using Listener = std::function<void(const ClusterInfo* now, const ClusterInfo* before)>;

  /// Reads what is stored and follows every change. The server must outlive this or stop().
  void start(ApiServer& server);
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
  [[nodiscard]] Answer walk(std::string_view start, std::string_view rest);

  StringMap<ClusterInfo> clusters_;
  StringMap<std::string> by_path_;   // canonical path -> name
  StringMap<std::string> children_;  // "<parent> <workspace>" -> name
  std::vector<Listener> listeners_;
  std::vector<std::shared_ptr<void>> subscriptions_;
  const ObjectReader* reader_ = nullptr;
};

}  // namespace kintsugi::apiserver
