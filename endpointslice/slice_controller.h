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
#include "base/time.h"
#include "endpointslice/internal/grace.h"
#include "endpointslice/slice_builder.h"
#include "endpointslice/world.h"
#include "net/loop.h"
#include "net/work_queue.h"
#include "topology/objects.h"

namespace kintsugi::endpointslice {

/// Keeps the status of every APIExportEndpointSlice right, and one default slice per export
/// (TP-052, T-09). Level-based; endpoints and conditions are one write, and no
/// write when nothing changed. What a Partition selects is worked out once for all its slices.
/// An export that cannot be looked up is only reported when that lasts for a second, and entries of
/// relabelled shards stay for SliceDefaults::leave_grace.
/// A full pass every 10 minutes finds what no event told. Threads: one loop.
class SliceController {
 public:
  using Now = std::function<TimePoint()>;
  /// @param orphan_grace an export of which nothing is known must be away so long before what it
  ///        owned goes: a logical cluster that moves takes its exports along.
  /// @param now what time it is for the other two; empty: the loop's.
  SliceController(net::Loop& loop, topology::Objects& objects, World& world, SliceDefaults defaults,
                  Duration orphan_grace = milliseconds(500), Now now = {});

  /// A Shard was added or relabelled, or its URLs or health changed: slices that select it before
  /// or after are looked at again.
  void shards_changed();
  /// An export appeared, changed or went, or its first consumer on a shard came or its last one
  /// left.
  void export_changed(std::string_view cluster, std::string_view name);
  /// A Workspace of this name came, changed or went: slices whose export path goes over it are
  /// looked at again. "": a logical cluster came; slices whose path led nowhere are looked at
  /// again, soon.
  void path_changed(std::string_view segment);
  /// Looks at every slice and every export; also for what is not in the table of shards (a Shard
  /// went with its exports, something was listed for the first time).
  void full_pass();

  /// Nothing is written until release() was called as often as hold(); then everything is looked
  /// at. For times in which the picture is known to be incomplete.
  void hold() { ++holds_; }
  void release();

  struct Stats {
    std::uint64_t runs = 0, writes = 0;
    std::uint64_t selections = 0;  ///< evaluations of a Partition's selector over all shards
    topology::WriteCounts slices;
  };
  [[nodiscard]] const net::WorkQueue::Times& times() const noexcept { return slices_.times(); }
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }
  /// The slices as they are stored, for metrics.
  struct Census {
    std::map<std::string, std::size_t> endpoints;  ///< by mode
    std::map<std::string, std::size_t> not_ready;  ///< by reason of EndpointURLsReady
    std::size_t slices = 0;
  };
  [[nodiscard]] const Census& census() const noexcept { return census_; }
  /// What the status of a slice is computed from, for people; selection and shards live until the
  /// next event. nullopt: the export is not found or not known.
  [[nodiscard]] std::optional<std::vector<ShardPart>> explain(const krm::Json& slice);
  [[nodiscard]] bool idle() const noexcept { return slices_.busy() + defaults_queue_.busy() == 0; }

 private:
  /// What a slice refers to, to find it from there.
  struct Reference {
    std::string partition;  ///< cluster|name, "" for none
    std::string export_name, export_path;
    std::vector<std::string> owners;  ///< names of the APIExports that own it
    std::string mode, reason;         ///< for the census
    std::size_t endpoints = 0;
    bool operator==(const Reference&) const = default;
  };
  using Keys = std::set<std::string, std::less<>>;

  /// True when the shards of a Partition ("" for all) are not as they were at the last call.
  [[nodiscard]] bool selection_changed(const std::string& partition);
  void remember(const std::string& key, const krm::Json* slice);
  [[nodiscard]] Reference reference_of(std::string_view cluster, const krm::Json& slice) const;
  void index(const std::string& key, const Reference& reference, bool add);
  [[nodiscard]] SliceInput input_of(const krm::Json& slice, const std::string& cluster);
  [[nodiscard]] const ShardSelection* selection_of(std::string_view cluster,
                                                   std::string_view partition);
  void reconcile(const std::string& key, net::WorkQueue::Finished finished);
  /// False: the export cannot be looked up just now, nothing is to be written yet.
  [[nodiscard]] bool is_due(const std::string& key, const ExportFacts& facts);
  void keep_leaving(const std::string& key, SliceInput& input);
  void reconcile_default(const std::string& key, net::WorkQueue::Finished finished);
  /// True when the export of this key is known to be gone, for long enough.
  [[nodiscard]] bool export_gone(const std::string& key);
  /// The first slice that the export of this key owned and that goes with it.
  [[nodiscard]] std::optional<krm::Json> orphan_of(const std::string& key,
                                                   const ExportRecord* record) const;

  net::Loop& loop_;
  topology::Objects& objects_;
  World& world_;
  const Duration orphan_grace_;
  SliceDefaults defaults_;
  Now now_;
  Grace unknown_, leaving_;
  net::WorkQueue slices_;
  net::WorkQueue defaults_queue_;
  net::Timer pass_timer_;
  std::vector<std::shared_ptr<void>> subscriptions_;
  std::map<std::string, Reference, std::less<>> known_;  ///< every slice, by cluster|name
  StringMap<Keys> by_partition_, by_export_;
  StringMap<Keys> by_segment_;  ///< of the path to the export
  StringMap<Keys> by_owner_;    ///< cluster|name of an export that owns slices
  StringMap<TimePoint> away_;   ///< exports that own slices and are gone, since when
  Keys lost_;                   ///< slices whose path led nowhere
  net::Timer lost_timer_;
  bool lost_wait_ = false;
  Census census_;
  StringMap<ShardSelection> selections_;  ///< by cluster|name of the Partition
  StringMap<std::string> selected_;       ///< what its slices were told last, "" for all shards
  int holds_ = 0;
  Stats stats_;
};

}  // namespace kintsugi::endpointslice
