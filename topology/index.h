#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "topology/internal/consumers.h"
#include "topology/snapshot.h"

namespace kintsugi::topology {

/// A LogicalCluster object as far as routing needs it.
struct ClusterReport {
  std::string cluster;
  std::string path;  ///< kcp.io/path
  std::string type;  ///< internal.tenancy.kcp.io/type
  bool inactive = false;
  /// @{ spec.owner when it is a Workspace: the cluster that holds it, its name and uid.
  std::string owner_cluster = {};
  std::string owner_name = {};
  std::string owner_uid = {};
  /// @}
  bool is_home = false;  ///< of the user in spec.createdBy: named by the hash of his name
};

/// A Workspace object as far as routing needs it.
struct WorkspaceReport {
  std::string cluster;  ///< the logical cluster that holds it
  std::string name;
  std::string phase;
  std::string child;   ///< spec.cluster
  bool mount = false;  ///< spec.mount is set
  std::string url;     ///< spec.URL
  std::string uid = {};
};

/// An APIExport object as far as merged reads of its consumers need it.
struct ExportReport {
  std::string cluster, name;
  /// "<group>/<resource>" of the claims that name the identity of another export.
  std::vector<std::string> foreign_claims;
};

/// Where every logical cluster lives: the only writer of the facts that snapshots show.
/// Source. Facts follow the objects: an edge lives as
/// long as its Workspace object is listed. When a logical cluster goes, its edges stop to resolve
/// with it; should it come back on another shard they resolve again, because the Workspace objects
/// are still there and nobody would report them a second time.
/// Objects are hints (KK-064, KK-103, KK-294): the edge of a Workspace leads somewhere only as long
/// as the logical cluster that it names has that Workspace, with uid, as its owner. Of several
/// shards that report one logical cluster the first whose report an edge confirms is the owner and
/// stays it; `root` and homes are those of the shard `root`; what nobody confirms is the newest
/// reporter's. What does not fit is counted (Snapshot::untrusted) and logged.
/// Every function returns whether a routing fact changed. Unknown shard ids change nothing.
/// Cost: 1-3 us; delete_shard is O(all facts). Threads: one at a time. Time comes in as an
/// argument.
class Index {
 public:
  Index();
  /// Time stamped on facts from now on, for explain() [unix seconds].
  void set_time(std::uint32_t unix_seconds) noexcept { time_ = unix_seconds; }

  struct ShardChange {
    ShardId id = 0;
    bool added = false;
    bool changed = false;           ///< any field
    bool base_url_changed = false;  ///< every synced flag was reset (R-06, R-09)
    bool urls_changed = false;      ///< the base URL or one of another process, of a known shard
  };
  ShardChange upsert_shard(const ShardSpec& spec);
  /// Drops the row and every fact of that shard.
  bool delete_shard(std::string_view name);
  bool set_shards_listed();
  bool set_synced(ShardId shard, Resource resource, bool synced);
  bool set_health(ShardId shard, bool up, std::string_view cause);

  /// A second claimant of a path, and a second shard, are logged.
  bool upsert_cluster(ShardId shard, const ClusterReport& report);
  bool delete_cluster(ShardId shard, std::string_view cluster);
  /// Phase Scheduling is ignored, what was known before stays.
  bool upsert_workspace(ShardId shard, const WorkspaceReport& report);
  bool delete_workspace(ShardId shard, std::string_view cluster, std::string_view name);

  /// @{ APIBindings. What they changed for exports is appended to `changes`.
  bool upsert_binding(ShardId shard, const BindingReport& report, ConsumerChanges& changes);
  bool delete_binding(ShardId shard, std::string_view cluster, std::string_view name,
                      ConsumerChanges& changes);
  /// Bindings that only name a path follow what became of it since the last call.
  bool settle_bindings(ConsumerChanges& changes);
  /// @}

  bool upsert_export(ShardId shard, const ExportReport& report);
  bool delete_export(ShardId shard, std::string_view cluster, std::string_view name);

  /// The facts as they are now; valid until the next change.
  [[nodiscard]] const Snapshot& now() const noexcept { return facts_; }
  /// An immutable copy for readers; costs one reference per map and shard.
  [[nodiscard]] SnapshotPtr freeze();

 private:
  struct Report {
    ShardId shard = 0;
    std::uint32_t changed = 0;
    bool inactive = false;
    bool home = false;
    std::uint64_t owner = 0;  // mark of the Workspace that it names, 0: none
    std::string type, claim;
  };
  struct ClusterRecord {
    std::vector<std::uint64_t> parents;  // marks of the Workspaces that name it
    std::vector<Report> reports;         // newest last, but the owner behind all
  };
  [[nodiscard]] ClusterRecord read_cluster(std::string_view name) const;
  bool write_cluster(std::string_view name, const ClusterRecord& before, const ClusterRecord& now);
  void move_claim(std::string_view cluster, std::string_view from, std::string_view to);
  void add_parent(std::string_view child, std::uint64_t mark);
  void drop_parent(std::string_view child, std::uint64_t mark);
  [[nodiscard]] std::uint64_t mark_of(std::string_view cluster, std::string_view name,
                                      std::string_view uid) const;
  [[nodiscard]] int rank(std::string_view name, const ClusterRecord& record,
                         const Report& report) const;
  void elect(std::string_view name, ClusterRecord& record) const;
  void distrust(UntrustedFact fact, std::string_view cluster, std::string_view detail);
  std::size_t shard_row(ShardId id) const noexcept;
  template <class Change>
  bool change_shard(ShardId id, Change change);
  void count_owned(ShardId id, int by) noexcept;
  void count_move(ShardId from) noexcept;
  bool take_consumers(const ConsumerChanges& changes, std::size_t first);

  Snapshot facts_;
  std::string salt_;  // of marks: nobody outside can look for two that are equal
  ConsumerTable consumers_;
  bool paths_moved_ = false;  ///< since settle_bindings
  ShardId last_id_ = 0;
  std::uint32_t time_ = 0;
};

/// Key of an export in the maps of consumers and claims.
[[nodiscard]] std::string consumers_key(std::string_view cluster, std::string_view name);
/// Key of a shard's word on what an export claims.
[[nodiscard]] std::string claims_key(ShardId shard, std::string_view cluster,
                                     std::string_view name);
/// The logical cluster and the shard that has it.
inline constexpr std::string_view kRootName = "root";
/// @{ Bits of a report in the map of facts.
inline constexpr std::uint8_t kInactiveFlag = 1, kOwnedFlag = 2, kHomeFlag = 4;
/// @}
/// Claim that stands for more of them than a map holds.
inline constexpr std::string_view kAnyResource = "*/*";
/// Key of a Workspace in the map of facts. Empty when a part is too long to be a name.
[[nodiscard]] std::string workspace_key(ShardId shard, std::string_view cluster,
                                        std::string_view name);

}  // namespace kintsugi::topology
