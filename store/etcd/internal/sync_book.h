#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "store/store.h"

/// Who waits until the position has reached what etcd had when they asked (GR-102, GR-119): head
/// reads that many share, and what makes the watch speak. Times and answers come in, actions go
/// out. Pure.
namespace kintsugi::store::etcd {

struct SyncParams {
  Duration between_heads = milliseconds(5);  ///< in the long run
  /// So many more may be read at once after a while without.
  int saved_heads = 20;
  Duration first_nudge = milliseconds(5);
  Duration next_nudge = milliseconds(100);
  Duration head_retry = milliseconds(50);  ///< after a head read that failed
};

struct SyncAction {
  enum class Kind : std::uint8_t {
    kReadHead,  ///< on_head() or on_head_failed() has to follow
    kNudge,     ///< make the watch tell its position
    kDone,      ///< `number`: the position is `revision`
    kExpired,   ///< `number`
  } kind = Kind::kDone;
  std::uint64_t number = 0;
  Revision revision = 0;
};
using SyncActions = std::vector<SyncAction>;

class SyncBook {
 public:
  explicit SyncBook(SyncParams params = {}) : params_(params) {}

  /// @param revision  what to wait for; nullopt: the newest that a head read begun from now on
  /// finds
  void add(std::uint64_t number, std::optional<Revision> revision, TimePoint now,
           TimePoint deadline, SyncActions& out);
  void on_head(Revision head, TimePoint now, SyncActions& out);
  void on_head_failed(TimePoint now);
  void on_position(Revision position, SyncActions& out);
  void on_time(TimePoint now, SyncActions& out);
  [[nodiscard]] std::optional<TimePoint> next_time() const;
  [[nodiscard]] std::size_t size() const noexcept { return waiters_.size(); }
  /// Numbers of all who wait; they are forgotten.
  [[nodiscard]] std::vector<std::uint64_t> take_all();

 private:
  struct Waiter {
    std::optional<Revision> target;
    TimePoint deadline{};
  };
  void start_head(TimePoint now, SyncActions& out);
  bool drop(std::uint64_t number);
  void expect(std::uint64_t number, Waiter& waiter, Revision target, TimePoint now,
              SyncActions& out);

  SyncParams params_;
  std::unordered_map<std::uint64_t, Waiter> waiters_;
  std::multimap<Revision, std::uint64_t> targets_;  // above the position
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
  std::vector<std::uint64_t> joined_;  // to the head read that is under way
  std::vector<std::uint64_t> next_;    // came after it began
  bool reading_ = false;
  std::optional<TimePoint> head_at_;  // not before; in the past: some are saved
  std::optional<TimePoint> nudge_at_;
  Revision position_ = 0;
};

}  // namespace kintsugi::store::etcd
