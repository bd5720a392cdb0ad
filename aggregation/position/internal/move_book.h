#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "aggregation/position/cursor.h"
#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::aggregation {

/// What a process knows of logical clusters that move between shards (AGG-1101), for
/// streams that begin later, on whatever loop. By shard (its UID in the slot table) and scope.
/// Bounded: of shards by scope the first ones are forgotten, of clusters the last ones. Threads:
/// any; without moves no lock is taken.
class MoveBook {
 public:
  /// Logical clusters, and the last revision of what nobody was told of them.
  using LeftOut = std::map<std::string, std::uint64_t>;
  struct Arrival {
    std::uint64_t revision = 0;    ///< 0: nothing came
    std::uint32_t generation = 0;  ///< of the slots then
    bool operator==(const Arrival&) const = default;
  };

  /// The shard tells of a cluster that it does not own: what it has of that up to the revision is
  /// not delivered, until the cluster arrives there.
  void leave_out(std::string_view uid, const Scope& scope, const std::string& cluster,
                 std::uint64_t revision);
  [[nodiscard]] LeftOut left_out(std::string_view uid, const Scope& scope) const;

  /// Streams of the scope that the shard was asked for before this revision lack what came to it
  /// with the cluster.
  void note_arrival(std::string_view uid, const Scope& scope, const std::string& cluster,
                    Arrival arrival);
  /// The newest one.
  [[nodiscard]] Arrival arrival(std::string_view uid, const Scope& scope) const;

  using Key = std::array<std::string, 4>;  ///< UID of the shard, route, group, resource
  /// All of it, as it is stored.
  struct Record {
    std::map<Key, LeftOut> left_out;
    std::map<Key, Arrival> arrivals;
    krm::Json others = krm::Json::object();  ///< members of later programs
    bool operator==(const Record&) const = default;
    [[nodiscard]] krm::Json to_json() const;
    /// @error kCorrupt
    [[nodiscard]] static Expected<Record> from_json(const krm::Json& json);
  };
  /// Calls `changed`, on whatever thread, when there is something that record() has not told.
  /// Set before others know the book.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  [[nodiscard]] Record record();
  /// What others have written since a record that was known: what they have added is here, too,
  /// what they have taken away goes; of numbers the larger ones stay.
  void take(const Record& known, const Record& theirs);

  static constexpr std::size_t kMost = 4'096;        ///< shards by scope
  static constexpr std::size_t kMostClusters = 256;  ///< of one shard and scope

 private:
  void tell(bool first) const;
  void erase(const Key& key, const std::string& cluster, std::uint64_t revision);

  mutable std::mutex mutex_;
  Record all_;
  bool dirty_ = false;
  std::atomic<bool> has_left_out_ = false, has_arrivals_ = false;
  std::function<void()> changed_;
};

}  // namespace kintsugi::aggregation
