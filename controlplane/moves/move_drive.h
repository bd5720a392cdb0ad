#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "controlplane/moves/internal/move_rows.h"
#include "krm/json.h"

namespace kintsugi::controlplane {

/// Of a LogicalClusterMigration.
enum class MovePhase : std::uint8_t {
  kPreparing,           ///< copied while the origin serves
  kMigrating,           ///< no writes
  kOriginCleanup,       ///< the destination has it
  kDestinationFinalize  ///< and the origin has forgotten it
};

/// What to do next for one move, and what it makes of the answers: the steps of MoveSteps in their
/// order, without I/O. What has to outlive a crash of the driver is the phase and the number of the
/// try, which the driver stores when it is told to; one that begins anew in phase Migrating asks
/// the origin who owns the cluster, and copies again if that is the origin. Source: GR-601, GR-604.
class MoveDrive {
 public:
  enum class Does : std::uint8_t {
    kAsk,    ///< run `step` at the origin or the destination; then answered()
    kPause,  ///< come back after `pause`
    kEnter,  ///< store `phase`; with an `attempt` the drive is over, and another one begins
    kDone,   ///< store that it is over, with `failure` if that is not ""
  };
  struct Action {
    Does does = Does::kPause;
    bool at_origin = false;
    std::string_view step{};
    std::string migration{};  ///< the try that it is about
    krm::Json more{};
    Duration pause{};
    MovePhase phase = MovePhase::kPreparing;
    std::int64_t attempt = 0;  ///< of kEnter, where it is another one: the number to be stored
    std::string note{};        ///< and why it tries again
    std::string failure{};     ///< of kDone
  };

  /// @param uid  of the object. @param attempt  as stored, from 0
  MoveDrive(std::string uid, std::int64_t attempt) : uid_(std::move(uid)), attempt_(attempt) {}

  /// Which try a step belongs to: another one for each.
  [[nodiscard]] std::string migration() const;
  [[nodiscard]] std::int64_t attempt() const noexcept { return attempt_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// How long the last stop of writes took, as seen from here; 0: there was none.
  [[nodiscard]] Duration stop() const noexcept { return stop_; }

  /// @param phase  as stored. @param cancelled  somebody wants it to end.
  [[nodiscard]] Action next(MovePhase phase, bool cancelled, TimePoint now);
  /// To the last kAsk.
  void answered(const Expected<krm::Json>& answer, TimePoint now);

 private:
  /// What is asked next, or was asked last, in this order.
  enum class Stage : std::uint8_t {
    kOtherRelease,  ///< of a move that has got as far as kReady: the same as kRelease
    kOtherAbandon,
    kBegin,
    kPage,
    kTakePage,
    kPast,
    kFollow,
    kTakeWritten,
    kFence,
    kLast,      ///< what was written before the fence
    kTakeLast,  ///< and keeps it
    kReady,
    kSwitch,
    kRelease,     ///< whose is it? Unless it was given away the origin goes on
    kAskAbandon,  ///< the same at the destination, of a move that an older release has begun
    kArrive,
    kLeave,
    kSettle,
    kAbandon,
    kAgain,  ///< another try
    kOver
  };
  [[nodiscard]] Action prepare(bool cancelled);
  [[nodiscard]] Action migrate(bool cancelled, TimePoint now);
  [[nodiscard]] Action ask(Stage stage) const;
  [[nodiscard]] static Action enter(MovePhase phase);
  void on_copied(const krm::Json& answer, TimePoint now);
  void on_stopped(const krm::Json& answer);
  void on_owner(const krm::Json& answer, TimePoint now);
  void on_error(const Error& error, TimePoint now);
  void take_written(const krm::Json& answer);
  void restart_copy();
  /// The try ends: for good, or there is another one.
  void end_try(std::string why, bool for_good);

  std::string uid_;
  std::int64_t attempt_;
  Stage stage_ = Stage::kBegin;
  bool for_good_ = false, abandoned_ = false;
  std::string why_;
  TimePoint heard_{};       // of an answer
  TimePoint asked_{};       // the last
  TimePoint not_before_{};  // the next

  // The copy.
  TimePoint copying_{};  // since
  std::int64_t most_rows_ = 0, restarts_ = 0, rounds_ = 0;
  std::int64_t pages_ = 0, rows_ = 0, bytes_ = 0;
  std::int64_t at_ = 0, floor_ = 0, complete_ = 0;
  std::string other_, next_;
  krm::Json entries_;
  bool is_calm_ = false;  // hardly anything was written meanwhile
  Deletions deleted_;

  // The stop.
  TimePoint stopped_{};  // since
  Duration stop_{};
  std::int64_t fence_at_ = 0, revision_ = 0;
  std::int64_t sum_rows_ = -1;  // not known
  std::string digest_;
};

}  // namespace kintsugi::controlplane
