#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "http/headers.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "net/work_queue.h"
#include "topology/feed.h"
#include "topology/objects.h"

namespace kintsugi::topology {

/// What has been imported once, for ever. Threads: one loop.
class ImportLog {
 public:
  virtual ~ImportLog() = default;
  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
  /// `done` comes in a later turn, after the entry is durable.
  virtual void add(std::string_view key, std::function<void(bool ok)> done) = 0;
};

struct ImportParams {
  std::function<Expected<net::UpstreamParams>(const std::string& shard,
                                              const std::string& base_url)>
      upstream;
  http::HeaderList headers;
  /// Identity hash of topology.kcp.io, "" while it is unknown.
  std::function<std::string()> identity;
  /// Whether a group's objects are copied; empty: every one's.
  std::function<bool(std::string_view group)> imports = {};
  /// True before objects are stored, false after the last one: Partitions of a set come after it,
  /// and nobody may make them meanwhile.
  std::function<void(bool)> busy;
  /// All objects of the shard are here, and those that were deleted since stay away.
  std::function<void(ShardId)> imported;
};

/// Copies the PartitionSets, Partitions and APIExportEndpointSlices that a kcp shard holds into the
/// proxy's store, once each (T-04): name, uid, labels, annotations, owners,
/// creation time and spec. Status is computed again. An object that is here already, by any uid,
/// is not touched. A shard that does not serve the kinds has nothing to copy. Threads: the control
/// loop's. Lifetime: registers with the feed by the caller; destroyed outside of its callbacks.
class Importer final : public FeedListener {
 public:
  Importer(net::Loop& loop, Objects& objects, ImportLog& log, ImportParams params);
  ~Importer();

  void on_change(const ShardChanged& change) override;
  [[nodiscard]] bool is_done(ShardId shard) const { return done_.contains(shard); }

  struct Stats {
    std::uint64_t copied = 0;   ///< objects stored
    std::uint64_t skipped = 0;  ///< there already, or imported before
    std::uint64_t refused = 0;  ///< not valid here
  };
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  struct Shard {
    ShardId id = 0;
    std::string base_url;
    int waits = 0;  ///< for the identity
  };
  struct Pass;
  using PassPtr = std::shared_ptr<Pass>;

  void run(const std::string& name, net::WorkQueue::Finished finished);
  void fetch(const PassPtr& pass);
  void take_page(const PassPtr& pass, Expected<net::FetchResponse> answer);
  void store_next(const PassPtr& pass);
  void note(const PassPtr& pass, const std::string& key);
  void finish(const PassPtr& pass, bool ok);

  net::Loop& loop_;
  Objects& objects_;
  ImportLog& log_;
  ImportParams params_;
  std::map<std::string, Shard, std::less<>> shards_;
  std::map<std::string, PassPtr, std::less<>> passes_;  ///< running
  std::set<ShardId> done_;
  std::size_t storing_ = 0;
  Stats stats_;
  net::WorkQueue queue_;
};

}  // namespace kintsugi::topology
