#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "topology/internal/index_map.h"

namespace kintsugi::topology {

/// Identifies a shard from its registration to its removal; counts up from 1, never reused, 0:
/// none.
using ShardId = std::uint32_t;

/// What is listed from every shard; each has its own synced flag.
enum class Resource : std::uint8_t { kWorkspaces, kLogicalClusters, kExports, kBindings };
inline constexpr std::size_t kResources = 4;
/// Plural name ("workspaces").
[[nodiscard]] std::string_view resource_name(Resource resource) noexcept;

/// The shape in which sources give a shard to the index.
struct ShardSpec {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  ///< sorted by key
  std::string base_url;               ///< without trailing slash (FP-027); may be empty or no URL
  std::string external_url;           ///< default base_url
  std::string virtual_workspace_url;  ///< default base_url
  /// Where other processes of the same shard serve the same (GR-301): http(s) URLs without a slash
  /// at the end, sorted, without base_url, at most 16.
  std::vector<std::string> replica_urls;
  std::string uid;           ///< of the Shard object; "" for sources without (then the name counts)
  bool plain = false;        ///< source `static`: requests carry no /clusters/ prefix (FP-149)
  bool impersonate = false;  ///< plain: callers go as Impersonate-*, not as X-Remote-*
  /// Another number: it is reached in another way (credentials, certificates), and what still runs
  /// in the old one ends within a minute, as after a new URL (GR-703).
  std::uint64_t access = 0;
  bool operator==(const ShardSpec&) const = default;
  [[nodiscard]] const std::string* label(std::string_view key) const noexcept;
};

/// One row of the shard table. Immutable.
struct ShardInfo {
  ShardId id = 0;
  ShardSpec spec;
  bool usable = false;      ///< base_url is an http(s) URL; false answers E2 (E10)
  bool up = true;           ///< health (R-27); changes no route
  std::string cause;        ///< last failure, "" when up
  std::uint8_t synced = 0;  ///< bit per Resource
  [[nodiscard]] bool is_synced(Resource resource) const noexcept {
    return ((synced >> static_cast<unsigned>(resource)) & 1U) != 0;
  }
};

/// Path and query for the shard, below its base URL: "/clusters/<cluster><rest>"; a lone "/" is
/// dropped (FP-038). Plain shards get `rest` alone, at least "/".
/// @param rest undecoded, begins with '/' or '?' or is empty.
[[nodiscard]] std::string shard_target(const ShardInfo& shard, std::string_view cluster,
                                       std::string_view rest);
/// The same with the base URL in front ("https://root.io/clusters/34").
[[nodiscard]] std::string shard_url(const ShardInfo& shard, std::string_view cluster,
                                    std::string_view rest);

/// What an object said and nothing confirmed, so that it was not obeyed (KK-292).
enum class UntrustedFact : std::uint8_t {
  kWorkspaceEdge,  ///< spec.cluster of a Workspace; that cluster has another owner
  kClusterName,    ///< a shard reports a logical cluster that another one has
};
inline constexpr std::size_t kUntrustedFacts = 2;
/// As metrics say it ("workspace-edge").
[[nodiscard]] std::string_view untrusted_fact_name(UntrustedFact fact) noexcept;

/// A known logical cluster. Views point into the snapshot.
struct ClusterFact {
  std::string_view name;
  ShardId owner = 0;
  std::string_view type;      ///< "<path>:<name>", "" when not annotated
  bool inactive = false;      ///< core.kcp.io/inactive
  std::uint32_t parents = 0;  ///< Workspaces that name it as child and that it names as owner
  std::uint64_t parent = 0;   ///< mark of the Workspace that it names as owner, 0: none
  std::uint32_t changed = 0;  ///< when the owner's report last changed [unix seconds]
};

/// One edge, mark or mount of a Workspace object. Views point into the snapshot.
struct WorkspaceFact {
  std::string_view child;      ///< logical cluster name, "" for none
  std::string_view mount_url;  ///< "" for none
  bool unavailable = false;
  std::uint64_t mark = 0;     ///< of its cluster, name and uid; 0: has none
  std::uint32_t changed = 0;  ///< [unix seconds]
  /// The edge holds: `child` names this Workspace as its owner (KK-064).
  [[nodiscard]] bool leads_to(const ClusterFact& to) const noexcept {
    return mark != 0 && to.parent == mark;
  }
};

/// Everything that routing reads, at one instant.
///
/// Why this structure: a path may hop shards at every segment, so one request reads several facts
/// that must belong together; and the single writer changes one fact a millisecond. Replicas per
/// loop would multiply the memory by the loops, locks would make readers wait, and a table that is
/// changed under its readers can miss an entry, which is a wrong 403. So the facts are persistent
/// maps (index_map.h): the writer copies what it touches (about 2 kB a change), everything else is
/// shared between snapshots, and a reader follows plain pointers.
///
/// Lifetime: a loop's current snapshot stays valid until the end of the turn; views taken from it
/// live as long as the snapshot (hold shared() to keep it longer). Threads: any, it never changes.
class Snapshot {
 public:
  /// Counts publications; starts at 0 for the empty snapshot.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  /// The list of shards itself is complete.
  [[nodiscard]] bool shards_listed() const noexcept { return shards_listed_; }
  /// The list of shards is complete and every one has `resource` synced.
  [[nodiscard]] bool all_synced(Resource resource) const noexcept;
  /// Sorted by id, that is by registration.
  [[nodiscard]] const std::vector<std::shared_ptr<const ShardInfo>>& shards() const noexcept {
    return shards_;
  }
  [[nodiscard]] const ShardInfo* shard(ShardId id) const noexcept;             ///< O(log n)
  [[nodiscard]] const ShardInfo* shard(std::string_view name) const noexcept;  ///< O(n)
  [[nodiscard]] std::optional<ClusterFact> cluster(std::string_view name) const noexcept;
  /// What this shard has of the logical cluster rests there, and another one serves it (GR-411).
  [[nodiscard]] bool rests(ShardId shard, std::string_view cluster) const noexcept;
  [[nodiscard]] std::optional<WorkspaceFact> workspace(ShardId shard, std::string_view cluster,
                                                       std::string_view name) const noexcept;
  /// Cluster and name of the Workspace that leads to a logical cluster (KK-064); empty: none does.
  /// O(all Workspaces): for what is asked seldom.
  struct ParentName {
    std::string_view cluster, name;
  };
  [[nodiscard]] ParentName parent_of(std::string_view cluster) const noexcept;
  /// Logical clusters without parent Workspace that claim the one-segment path.
  [[nodiscard]] std::vector<std::string_view> claimants(std::string_view path) const;
  /// Shards that hold at least one APIBinding of the export, ascending.
  [[nodiscard]] std::vector<ShardId> consumers(std::string_view export_cluster,
                                               std::string_view export_name) const;
  [[nodiscard]] bool has_consumer(ShardId shard, std::string_view export_cluster,
                                  std::string_view export_name) const noexcept;
  /// Exports ("<cluster>|<name>", sorted) of which the shard holds APIBindings. O(all exports).
  [[nodiscard]] std::vector<std::string> consumed_exports(ShardId shard) const;
  /// The export claims this resource of another export: that one's maximal permission policy judges
  /// every caller by itself. False also where nothing is known of the export.
  [[nodiscard]] bool claims_foreign(std::string_view export_cluster, std::string_view export_name,
                                    std::string_view group,
                                    std::string_view resource) const noexcept;
  /// Logical clusters owned by the shard (kcp_indexed_logicalclusters).
  [[nodiscard]] std::size_t owned(ShardId id) const noexcept;
  /// How often another shard has become the owner of what this one owned, since it is known; 0: all
  /// of them together.
  [[nodiscard]] std::uint64_t moved_away(ShardId id) const noexcept;
  [[nodiscard]] std::size_t cluster_count() const noexcept { return cluster_count_; }
  [[nodiscard]] std::size_t workspace_count() const noexcept { return workspaces_.size(); }
  /// How often something was said that was not believed, since the process began.
  [[nodiscard]] std::uint64_t untrusted(UntrustedFact fact) const noexcept {
    return untrusted_[static_cast<std::size_t>(fact)];
  }
  /// Logical clusters that several shards report now.
  [[nodiscard]] std::size_t conflicts() const noexcept { return conflicts_; }
  /// Heap of the facts [bytes]; at 100,000 logical clusters at most 200 each.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  friend class Index;
  std::uint64_t generation_ = 0;
  bool shards_listed_ = false;
  std::size_t cluster_count_ = 0;  // entries with a report; others only know parents
  std::size_t conflicts_ = 0;      // entries with several
  std::array<std::uint64_t, kUntrustedFacts> untrusted_{};
  std::vector<std::shared_ptr<const ShardInfo>> shards_;
  struct Owned {
    ShardId shard = 0;
    std::size_t clusters = 0;
    std::uint64_t moved_away = 0;
  };
  std::vector<Owned> owned_;      // parallel to shards_
  std::uint64_t moved_away_ = 0;  // of all that were ever known
  IndexMap clusters_;             // cluster name -> reports
  IndexMap workspaces_;           // shard, cluster, name -> fact
  IndexMap claims_;               // one-segment path -> cluster names
  IndexMap consumers_;            // export -> its key, shards with bindings
  IndexMap foreign_claims_;       // shard, export -> "group/resource"s
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// What one loop reads. Threads: its loop, but offer().
class SnapshotView {
 public:
  explicit SnapshotView(net::Loop& loop) : loop_(loop), current_(std::make_shared<Snapshot>()) {}
  [[nodiscard]] const Snapshot& current() const noexcept { return *current_; }
  [[nodiscard]] SnapshotPtr shared() const noexcept { return current_; }
  /// `changed(before, now)` runs on the loop after each swap. Never removed.
  void on_change(std::function<void(const Snapshot&, const Snapshot&)> changed) {
    changed_.push_back(std::move(changed));
  }

 private:
  friend class SnapshotPublisher;
  static void offer(const std::shared_ptr<SnapshotView>& self, SnapshotPtr snapshot);
  void take();

  net::Loop& loop_;
  SnapshotPtr current_;
  std::vector<std::function<void(const Snapshot&, const Snapshot&)>> changed_;
  std::mutex
      mutex_;  // guards next_: held for a pointer swap, by publisher and post, never by a request
  SnapshotPtr next_;
};

/// Hands each snapshot to every loop. A loop that lags gets only the newest one.
/// Threads: the control loop's, or before the loops run. Loops must outlive it or stop posting.
class SnapshotPublisher {
 public:
  /// Makes the view of a loop; it starts with the last published snapshot.
  [[nodiscard]] std::shared_ptr<SnapshotView> attach(net::Loop& loop);
  void publish(SnapshotPtr snapshot);
  [[nodiscard]] const SnapshotPtr& last() const noexcept { return last_; }

 private:
  SnapshotPtr last_ = std::make_shared<Snapshot>();
  std::vector<std::shared_ptr<SnapshotView>> views_;
};

}  // namespace kintsugi::topology
