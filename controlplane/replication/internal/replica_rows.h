#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/alive.h"
#include "base/strings.h"
#include "krm/json.h"
#include "net/loop.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// Copies of other shards' objects in the store of this shard, where every loop learns of them
/// (ApiServer::on_change with group kReplicaGroup) and where they outlive an outage of their shard
/// and a restart of this one.
/// Shape: keys and values as those of own objects (keys.h, stored_object.h), with resource names
/// "<plural>.replica"; managedFields and ownerReferences are left out; annotation
/// internal.kcp.io/replicated-from names the shard that a copy is from.
/// Writes go to the store in batches, in order, one batch at a time, until they succeed (back-off
/// 50 ms to 5 s); what equals the stored copy is not written. Memory: the newest version of each
/// object that is not stored yet. Threads: one loop. The store must outlive it.
class ReplicaRows {
 public:
  ReplicaRows(net::Loop& loop, store::Store& store);
  ~ReplicaRows() = default;
  ReplicaRows(const ReplicaRows&) = delete;
  ReplicaRows& operator=(const ReplicaRows&) = delete;

  /// @param object as its shard sent it. @param shard "": the copy does not name it.
  void put(const std::string& key, std::string_view shard, krm::Json object);
  /// Only if the copy is from that shard.
  void remove(const std::string& key, std::string_view shard);
  /// remove() of every key with the prefix.
  void remove_all(std::string_view prefix, std::string_view shard);
  /// What is stored, in key order; puts and removes that wait are not seen.
  void each(std::string_view prefix,
            const std::function<void(std::string_view key, std::string_view shard)>& visit) const;

  struct Stats {
    std::uint64_t written = 0, removed = 0, batches = 0, failures = 0;
    std::size_t waiting = 0;  ///< not stored yet
  };
  [[nodiscard]] Stats stats() const;

 private:
  struct Row {
    std::string shard;
    std::optional<std::string> value;  // nullopt: to be deleted
  };
  [[nodiscard]] Row present(const std::string& key) const;
  void enqueue(const std::string& key, Row row);
  void schedule();
  void flush();
  void committed(const Expected<store::CommitResult>& result);

  net::Loop& loop_;
  store::Store& store_;
  StringMap<Row> waiting_, running_;
  std::deque<std::string> order_;  // of waiting_
  bool posted_ = false;
  unsigned failures_ = 0;  // in a row
  Stats stats_;
  net::Timer retry_;
  Alive alive_;
};

}  // namespace kintsugi::controlplane
