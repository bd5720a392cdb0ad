#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/spsc_ring.h"
#include "net/loop.h"

/// One upstream watch for all loops of a process (AGG-902). Of the streams
/// that ask one shard the same for one identity, the first that is live is home. Those of other
/// loops read what it brings, and close their own as soon as they have everything that came
/// before. When the home goes each of them asks the shard again from where it is, and the first
/// that is live is home.
namespace kintsugi::aggregation {

class StreamShare;
struct StreamRelay;

/// Which loop has which stream. One per process, of whose loops none dies before all are done.
/// Threads: any; its lock is taken when streams begin and end, not for events.
class StreamHomes {
 public:
  /// What waits between two loops for one stream; a reader that is further behind asks the shard
  /// itself.
  static constexpr std::size_t kMostBatches = 1'024;
  static constexpr std::size_t kMostBytes = 4U << 20;
  /// What a reader takes in one turn of its loop, and the batch that goes beyond: what it makes of
  /// that leaves for clients only at the end of the turn.
  static constexpr std::size_t kMostPerTurn = 128U << 10;

  struct Stats {
    std::size_t relays = 0;       ///< streams that are read from another loop
    std::size_t queue_bytes = 0;  ///< that wait between loops
    std::uint64_t cut = 0;        ///< relays whose reader was too far behind
    std::uint64_t wakes = 0;      ///< of loops for what others have read
  };
  [[nodiscard]] Stats stats() const noexcept;

 private:
  friend class StreamShare;
  friend struct StreamRelay;
  struct Home {
    net::Loop* loop;
    StreamShare* share;  ///< its loop's own
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Home> homes_;
  std::atomic<std::size_t> relays_ = 0, queue_bytes_ = 0;
  std::atomic<std::uint64_t> cut_ = 0, wakes_ = 0;
};

/// One stream of a shard, at one loop. Threads: its loop.
class StreamShare {
 public:
  enum class Role : std::uint8_t {
    kAlone,   ///< the stream is not live, or has only just become so
    kHome,    ///< other loops may read it
    kBehind,  ///< it is read until it has what came before its home sends
    kReader   ///< the home's is read, it has none of its own
  };
  /// None of these may destroy the share.
  class Stream {
   public:
    /// Everything that came until here was taken.
    [[nodiscard]] virtual std::uint64_t position() const noexcept = 0;
    /// What comes now is the home's: the own stream is to be closed. Events may come again.
    virtual void on_joined() noexcept = 0;
    /// Whole events as the shard sent them.
    virtual void on_relayed(std::string_view events) noexcept = 0;
    /// No more comes: the shard is to be asked from position() on. @param away  the shard is, not
    /// only the home
    virtual void on_home_lost(bool away) noexcept = 0;

   protected:
    ~Stream() = default;
  };

  /// @param key  of what is asked, of which shard, and for whom: what differs in nothing else, and
  /// in the encoding, is the same
  StreamShare(std::shared_ptr<StreamHomes> homes, net::Loop& loop, std::string key, Stream& stream);
  ~StreamShare();
  StreamShare(const StreamShare&) = delete;
  StreamShare& operator=(const StreamShare&) = delete;

  /// The own stream is live: whatever comes after position() comes on it. @param encoding  of it
  void be_live(std::string_view encoding);
  /// It is not any more, or is not wanted. @param away  the shard does not answer
  void be_lost(bool away) noexcept;
  /// An event of the own stream that was understood. @param revision  0: no object has changed
  void add(std::string_view event, std::string_view separator, std::uint64_t revision) {
    if (role_ != Role::kHome) {
      return;
    }
    newest_ = std::max(newest_, revision);
    if (!relays_.empty()) {
      batch_.append(event).append(separator);
    }
  }
  /// What came in this turn is through. May call on_joined().
  void end_batch() {
    if (!batch_.empty()) {
      relay_batch();
    }
    if (role_ == Role::kBehind) {
      join_if_level();
    }
  }
  [[nodiscard]] Role role() const noexcept { return role_; }

 private:
  void claim();
  void admit(const std::shared_ptr<StreamRelay>& relay);
  void on_admitted(std::uint64_t since);
  void relay_batch();
  void join_if_level();
  void on_woken();
  void poll();
  /// Some of what waits; the rest in later turns. @return whether anything came, and may go on
  /// coming.
  bool drain();
  void leave() noexcept;

  friend struct StreamRelay;
  const std::shared_ptr<StreamHomes> homes_;
  net::Loop& loop_;
  const std::string key_;
  std::string place_;  // among the homes: the key, and the encoding
  Stream& stream_;
  Role role_ = Role::kAlone;
  std::uint64_t newest_ = 0;                          // as home: nothing after it came before
  std::vector<std::shared_ptr<StreamRelay>> relays_;  // as home: to readers
  std::string batch_;                                 // as home: for them
  std::shared_ptr<StreamRelay> relay_;                // as reader: from the home
  std::uint64_t since_ = 0;  // the home sends everything after it; 0: not known yet
  TimePoint drained_at_{};
  net::Timer again_, poll_;
};

}  // namespace kintsugi::aggregation
