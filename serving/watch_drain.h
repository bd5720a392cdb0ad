#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "auth/proof.h"
#include "base/time.h"
#include "net/loop.h"
#include "serving/fair_queues.h"
#include "serving/watch_list.h"

namespace kintsugi::serving {

/// The running forwarded watches of one loop, so that a drain can end them one after another
/// instead of all at once. Threads: its loop.
class WatchDrain {
 public:
  /// A member of the list while it runs.
  class Watch {
   public:
    /// @param proof of the caller, when the request came; null: of nobody.
    explicit Watch(auth::ProofPtr proof) noexcept : proof_(std::move(proof)) {}
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    /// End the stream at the next event boundary. Called once, after the watch left the list.
    virtual void end_in_order() noexcept = 0;
    /// Whom it comes from, to find the watches of one shard; null: of several.
    [[nodiscard]] virtual const void* source() const noexcept { return nullptr; }
    /// What waits for its client to read it [bytes].
    [[nodiscard]] virtual std::size_t backlog() const noexcept { return 0; }
    /// Who pays for it, and with what right.
    [[nodiscard]] virtual std::string payer() const { return {}; }
    [[nodiscard]] virtual Level level() const { return Level::kUnknown; }
    /// False: something else that runs as long.
    [[nodiscard]] virtual bool is_watch() const noexcept { return true; }
    /// Fills everything but age and queue.
    virtual void describe(WatchRow& row) const { (void)row; }
    /// Its connection takes no other requests from now on, and ends with those that run.
    virtual void release_connection() noexcept {}
    /// End the stream now; what waits is dropped. Called once, after the watch left the list.
    virtual void end_at_once() noexcept { end_in_order(); }
    /// Who asked is not proven any more.
    [[nodiscard]] bool is_unproven() const noexcept { return proof_ != nullptr && proof_->ended; }
    /// Leaves its list. No effect when it is in none.
    void leave() noexcept {
      if (list_ != nullptr) {
        list_->remove(*this);
      }
    }

   protected:
    ~Watch() = default;
    /// Something came or went: it is not idle.
    void touch() noexcept { ++moves_; }

   private:
    friend class WatchDrain;
    const auth::ProofPtr proof_;
    Watch* next_ = nullptr;
    Watch* previous_ = nullptr;
    TimePoint since_{};
    std::uint32_t moves_ = 0, moves_seen_ = 0;
    std::uint32_t still_ = 0;  // looks in a row that have seen no move
    WatchDrain* list_ = nullptr;
  };

  /// @param unproven where watches go that turn out to have lost their proof when they are added.
  explicit WatchDrain(net::Loop& loop, WatchDrain* unproven = nullptr)
      : loop_(loop), unproven_(unproven), timer_(loop), idle_timer_(loop) {}
  /// Its response head has just gone out.
  void add(Watch& watch) noexcept;
  /// Ends what runs now within about `spread`, and what still begins afterwards, but none within a
  /// second of its head: clients take an empty watch that short for an error.
  void start(Duration spread);
  /// Takes the watches of `source` out of another list and ends them as start() does, those that
  /// still wait from an earlier call along with them.
  void end_of(WatchDrain& from, const void* source, Duration spread);
  /// The same with those whose proof has ended, at most 200 a second (SE-050).
  void end_unproven(WatchDrain& from);
  /// Ends up to `most` of those that are behind, in the order of put_in_shed_order().
  /// @param all  servers and administrators, too
  /// @returns how many.
  std::size_t shed(std::size_t most, bool all = false);
  /// Ends up to `most` watches in order, the oldest first, and has their clients come back by
  /// another connection, which may lead to another replica (GR-213). None within a second of its
  /// head.
  /// @returns how many.
  std::size_t send_away(std::size_t most) noexcept;
  /// From now on those end in order that have not been touched for `idle`, and an eighth of it more
  /// (SE-088).
  void end_when_idle(Duration idle);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Offers those that are watches. Cost: a few cache lines for each.
  void list(WatchList& into) const;

 private:
  /// @returns how many came.
  std::size_t take(WatchDrain& from, const std::function<bool(const Watch&)>& is_meant);
  void append(Watch& watch) noexcept;
  void remove(Watch& watch) noexcept;
  void pace(Duration spread) noexcept;
  void tick();
  void look_for_idle();

  net::Loop& loop_;
  WatchDrain* unproven_;
  net::Timer timer_, idle_timer_;
  Duration idle_{};  // 0: nobody is ended
  bool looks_ = false;
  Watch* head_ = nullptr;
  Watch* tail_ = nullptr;
  std::size_t size_ = 0;
  std::size_t per_tick_ = 1;
  Duration pause_{};
  bool draining_ = false;
};

}  // namespace kintsugi::serving
