#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/alive.h"
#include "base/time.h"
#include "net/loop.h"
#include "server/replica_record.h"
#include "store/store.h"

namespace kintsugi::server {

/// Keeps the record of this process in the store that it shares with others, and knows theirs. One
/// that nobody has written for a minute, by the clock of who looks, is gone, and is removed. The
/// own one is removed when this is destroyed. Threads: the loop's.
class ReplicaKeeper {
 public:
  struct Times {
    Duration write = seconds(kReplicaWriteSeconds);
    Duration gone = seconds(kReplicaGoneSeconds);
    Duration look = seconds(1);
    Duration settled = seconds(kReplicaSettledSeconds);
    /// Of a shard: at least so often while there are others (0: as `write`), and those answer that
    /// have written within `fresh` (GR-301).
    Duration write_beside{}, fresh{};
  };
  /// @param settled  called when no process of another release has been seen for Times::settled,
  /// and again after as long; empty: nobody wants to know
  ReplicaKeeper(net::Loop& loop, store::Store& store, Replica own, std::function<void()> settled,
                Times times);
  ReplicaKeeper(net::Loop& loop, store::Store& store, Replica own,
                std::function<void()> settled = {})
      : ReplicaKeeper(loop, store, std::move(own), std::move(settled), Times()) {}
  ~ReplicaKeeper();
  ReplicaKeeper(const ReplicaKeeper&) = delete;
  ReplicaKeeper& operator=(const ReplicaKeeper&) = delete;

  /// Others hear of it soon, where much has changed.
  void tell(bool ready, std::size_t watches);
  /// Those that live, as they were at the last look, without this one.
  [[nodiscard]] const std::vector<Replica>& others() const noexcept { return others_; }
  /// Addresses of the others of the own release that answer, sorted: at once, and whenever they are
  /// not the same any more. One that was there at the begin answers when it has written again.
  void on_answering(std::function<void(const std::vector<std::string>&)> listener);

 private:
  struct Seen {
    store::Revision modified = 0;
    TimePoint since{};   ///< it has rested
    bool wrote = false;  ///< while somebody looked
  };
  void look();
  void look_for_other_releases();
  void write();
  [[nodiscard]] bool is_news() const noexcept;

  net::Loop& loop_;
  store::Store& store_;
  const Times times_;
  Replica own_, written_;
  TimePoint written_at_{};
  std::map<std::string, Seen> seen_;  ///< by id
  std::vector<Replica> others_;
  std::vector<std::string> answering_;
  std::function<void(const std::vector<std::string>&)> answering_changed_;
  bool looked_ = false;
  const std::function<void()> settled_;
  TimePoint alone_since_{};  ///< with those of the own release
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::server
