#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/merge_query.h"
#include "aggregation/asking/read_gate.h"
#include "aggregation/position/move_notes.h"
#include "aggregation/position/positions.h"
#include "aggregation/watch/group_log.h"
#include "aggregation/watch/internal/queue_budget.h"
#include "base/time.h"
#include "net/loop.h"
#include "serving/watch_drain.h"

namespace kintsugi::aggregation {

class DocumentCache;
class MergedWatch;
class StreamHomes;
class WatchGroup;

/// Looks for the deliveries of an event in the groups of that key on all loops of the process.
/// `done` runs on the caller's loop, at once or later.
using FindDeliveries =
    std::function<void(const std::string& key, std::uint64_t revision, std::vector<bool> members,
                       std::function<void(ResumeRing::Found)> done)>;

/// One group of watches, for people.
struct GroupReport {
  std::string route, path, user, query, api_group;
  bool reviewed = false;    ///< the proxy reads with its own credential
  std::size_t callers = 0;  ///< different ones among the readers
  std::size_t readers = 0, log_bytes = 0, log_events = 0;
  std::size_t queue_bytes = 0;  ///< that its readers have not been given yet
  struct Shard {
    std::string name;
    std::uint64_t position = 0;
    std::string_view state;
    bool relayed = false;  ///< read from another loop's stream
    Duration silent{};     ///< for how long it has not been heard
  };
  std::vector<Shard> shards;
};

/// The merged watches of one loop, and what they share. Outlives every one of them. Threads: its
/// loop.
class Watches {
 public:
  Watches(Asking& a, Positions& p, serving::WatchDrain& d);

  Asking& asking;
  Positions& positions;
  serving::WatchDrain& drain;
  const MoveNotes moves;
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<ReadGate> initial_gate =
      std::make_shared<ReadGate>(ReadGate::for_initial_events());
  /// Of the whole process; one of its own until another is set.
  std::shared_ptr<QueueBudget> queue_budget;
  /// Of the whole process; null: this loop is all there is.
  std::shared_ptr<StreamHomes> homes;
  FindDeliveries find_deliveries;  ///< empty: this loop is all there is
  /// A shard lost revisions that clients have seen: makes a new generation. May be empty.
  std::function<void(const std::string& uid)> rolled_back;
  /// Tells that shards may serve what they lacked (T02); may be null.
  std::shared_ptr<const DocumentCache> documents;

  std::vector<MergedWatch*> open;  ///< told of changes of the slots
  /// By question and identity; kept a while after their last reader.
  std::map<std::string_view, std::shared_ptr<WatchGroup>> groups;  ///< by their own key()
  std::size_t index_bytes = 0;  ///< of all key indexes, a second ago at most
  std::size_t index_fills = 0;  ///< lists that run for them

  /// The group of this question and identity; made if there is none.
  [[nodiscard]] std::shared_ptr<WatchGroup> group_of(http::RequestHead head, MergeRoute route,
                                                     const MergeQuery& query);
  [[nodiscard]] ResumeRing::Found find_delivery(const std::string& key, std::uint64_t revision,
                                                const std::vector<bool>& members) const;
  /// When the `turn`-th of `all` watches that have to list again is told to: spread in time, and
  /// never more of them a second than operators allow (AGG-1003).
  [[nodiscard]] Duration expiry_turn(std::size_t turn, std::size_t all);
  [[nodiscard]] std::vector<GroupReport> report_groups() const;
  /// Sees to it, while there are groups, that they remember no more than they may, that no more
  /// waits for their readers, and that shards that lacked a resource are asked again when discovery
  /// has changed.
  void keep_house();
  /// Slots, shards, or who holds what may have changed.
  void follow();

 private:
  void look_for_resources();
  void limit_indexes();
  void limit_queues();

  std::uint64_t discovery_seen_ = 0;
  net::Timer house_timer_;
  std::optional<QueueBudget::Share> queue_share_;
  TimePoint last_expiry_{};
  bool keeps_house_ = false;
};

}  // namespace kintsugi::aggregation
