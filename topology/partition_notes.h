#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "net/work_queue.h"
#include "topology/feed.h"
#include "topology/objects.h"

namespace kintsugi::topology {

struct PartitionNotesParams {
  /// Whose notes they are: random text that this proxy's store keeps. Another proxy's note of the
  /// same Partition is never taken back by this one.
  std::string source;
  /// The shard where a logical cluster is; nullopt while nobody knows, or nobody has it.
  std::function<std::optional<ShardId>(std::string_view cluster)> owner;
  /// Asks a shard with the proxy's own credential; `done` comes in a later turn. Null: it cannot be
  /// asked now, `done` never comes.
  using Answered = std::function<void(Expected<net::FetchResponse>)>;
  std::function<std::unique_ptr<net::Call>(ShardId, net::FetchRequest, Answered)> send;
};

/// Tells shards of the Partitions that ClusterCachedResourceEndpointSlices name there (KK-201): the
/// slices are the shards', the Partitions are stored by the proxy. A shard hears of a Partition
/// only if it owns the logical cluster of the Partition and shows a slice there that names it; it
/// hears selector and uid, or that there is none. Level-based: what a shard has not acknowledged is
/// tried again, with back-off; after each complete list of its slices everything is told anew.
/// Threads: one loop. Lifetime: registers with the feed by the caller.
class PartitionNotes final : public FeedListener {
 public:
  PartitionNotes(net::Loop& loop, Objects& objects, PartitionNotesParams params);
  ~PartitionNotes();

  /// The source, where it is known later than `params`. While it is not active.
  void set_source(std::string source) { params_.source = std::move(source); }
  /// Another process tells the shards while this one is not active; it is from the start.
  void set_active(bool active);

  void on_change(const ShardChanged& change) override;
  void on_change(const WorkspaceChanged& change) override;
  void on_change(const LogicalClusterChanged& change) override;
  void on_change(const CachedSliceChanged& change) override;
  void on_change(const CachedSlicesSynced& change) override;

  struct Stats {
    std::uint64_t told = 0;     ///< acknowledged notes
    std::uint64_t refused = 0;  ///< by a shard that wants none: it has no such slice, or is kcp's
    std::uint64_t failed = 0;   ///< tried again
  };
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  struct Running {
    std::unique_ptr<net::Call> call;
    net::WorkQueue::Finished finished;
  };
  struct Shard {
    StringMap<std::string> slices;  ///< "<cluster>|<slice>" to the key of the note it needs
    StringMap<std::size_t> users;   ///< key to how many slices need it
    StringMap<std::string> told;    ///< key to the body that was acknowledged
    std::map<std::string, Running, std::less<>> running;  ///< by key
  };
  void run(const std::string& key, net::WorkQueue::Finished finished);
  void answered(ShardId id, const std::string& key, const std::string& body,
                const Expected<net::FetchResponse>& answer);
  static void release(Shard& shard, const std::string& key);
  void add_all(const Shard& shard);
  void look_for_owners();
  [[nodiscard]] std::string body_of(std::string_view cluster, std::string_view partition) const;

  net::Loop& loop_;
  Objects& objects_;
  PartitionNotesParams params_;
  bool active_ = true;
  std::map<ShardId, Shard> shards_;
  std::set<std::string, std::less<>> lost_;  ///< keys whose logical cluster has no owner yet
  std::shared_ptr<void> subscription_;
  Stats stats_;
  net::WorkQueue queue_;
};

}  // namespace kintsugi::topology
