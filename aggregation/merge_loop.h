#pragma once

#include <memory>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/late_slots.h"
#include "aggregation/list/lists.h"
#include "aggregation/position/positions.h"
#include "aggregation/watch/watches.h"
#include "http/handler.h"
#include "net/loop.h"
#include "serving/watch_drain.h"
#include "topology/shard_pool.h"
#include "topology/snapshot.h"

/// Lists and watches that cover several shards (docs/spec/aggregation.md).
namespace kintsugi::aggregation {

class Reviewer;

/// The merged reads of one loop: its parts, of which everybody below takes those that it uses.
/// Outlives every stream. Threads: its loop.
class MergeLoop {
 public:
  MergeLoop(net::Loop& loop, topology::ShardPool& pool,
            std::shared_ptr<topology::SnapshotView> view, serving::WatchDrain& drain,
            const MergeOptions& options, const MergeParams& params);
  ~MergeLoop();
  MergeLoop(const MergeLoop&) = delete;
  MergeLoop& operator=(const MergeLoop&) = delete;

  Positions positions;
  Asking asking;
  LateSlots late_slots;
  Lists lists;
  Watches watches;
  /// With share: reviewed; else null.
  std::shared_ptr<Reviewer> reviewer;

  void start_reviews();
  /// New slots or generations; open watches follow.
  void set_slots(SlotHistoryPtr history);
  /// Shards, or who holds what, may have changed; only the latter: virtual workspaces follow, soon.
  void follow(bool shards_changed);

 private:
  net::Timer follow_timer_;
  bool follows_ = false;
};

/// Answers a GET of a collection over several shards. A cursor or token of a generation that is not
/// known here yet is waited for.
/// @param head  identity and forwarding headers as the shards shall see them.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_merged(MergeLoop& shared,
                                                                  http::RequestHead head,
                                                                  http::ResponseStream& stream,
                                                                  MergeRoute route);

}  // namespace kintsugi::aggregation
