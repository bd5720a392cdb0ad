#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "aggregation/asking/merge_params.h"
#include "base/time.h"

namespace kintsugi::aggregation {

/// Decides what becomes of one client's merged watch: when it gets its head, what a shard's refusal
/// or loss means for it, when the present objects are over, when it is told where it is, and how it
/// ends. No sockets, no clock, no allocation: the driver (MergedWatch) carries out each Action at
/// once. After on_stop() everything is kNone. Threads: one at a time.
class MergedWatchFsm {
 public:
  enum class State : std::uint8_t {
    kStarting,  ///< where it begins is being found out: it follows no shard
    kAsking,    ///< shards are asked; the client has no answer yet
    kInitial,   ///< the head is out; objects that were there at the beginning come
    kLive,      ///< the client has those, or wanted none: changes come
    kCutOff,    ///< too far behind: its end comes when it has taken what is on its way
    kEnded
  };
  /// Of the objects that were there at the beginning. Only grows.
  enum class Present : std::uint8_t {
    kComing,
    kGivenUp,  ///< shards that are away are not waited for any more
    kTold      ///< or there are none, or nobody wanted them
  };
  /// What the client is told at the end.
  enum class Why : std::uint8_t {
    kNothing,
    kShardAway,    ///< a shard that it cannot do without is away
    kAllAway,      ///< all are
    kBusy,         ///< shards want to be left alone for busy()
    kUnreviewed,   ///< its rights cannot be checked now
    kShardStatus,  ///< what the shard answers
    kFuture,       ///< a shard has not reached what was asked for
    kPresentLost,  ///< present objects broke off, and it can begin again with them
    kPresentLate,  ///< they did not come in time
    kExpired,      ///< 410: it has lost events, and has to list again
  };
  struct Action {
    enum class Kind : std::uint8_t {
      kNone,
      kLook,          ///< whether all shards have answered: then on_answers()
      kAnswer,        ///< on_answers() now, whatever is still open
      kSendHead,      ///< 200
      kPassOn,        ///< the Status of `part`, or of the shard at hand, is the answer; then stop
      kRefuse,        ///< `why` is the answer, then stop
      kTellError,     ///< as an ERROR event, then stop
      kFail,          ///< the head if it is not out, then on_error() with `why`
      kDoom,          ///< on_doom() after `wait`
      kWait,          ///< the same event again after `wait`
      kInitialEnd,    ///< nothing is awaited for the present objects; a bookmark says so if `marks`
      kGiveUp,        ///< the present objects may be over now
      kBookmark,      ///< tell where the client is, then on_bookmark_sent()
      kWantBookmark,  ///< on_bookmark_wanted()
      kAwaitBookmark,  ///< on_bookmark_due() at `at`
      kCut,            ///< nothing more is told; on_grace_over() after `wait`
      kReset,          ///< the connection, then stop
      kLookAgain,      ///< on_silence() at `at`
      kEndSilent,      ///< on_end_wanted() soon unless it is heard again, else on_silence() at `at`
      kWantEnd,        ///< on_end_wanted()
      kEnd,            ///< a last bookmark if it may be, the end of the stream, then stop
    };
    Kind kind = Kind::kNone;
    Why why = Why::kNothing;
    bool marks = false;            ///< kInitialEnd
    std::size_t part = 0;          ///< kPassOn, kRefuse: which of those that were looked at
    std::string_view reason = {};  ///< kFail, kDoom: label of kintsugi_cursor_expired_total
    Duration wait{};
    TimePoint at{};
  };
  /// What the shards say together while the client has no answer.
  struct Answers {
    static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::size_t refused = kNone;  ///< the first that refuses
    std::size_t silent = kNone;   ///< the first that was silent for too long
    bool all_refuse = false;      ///< or lack the resource
    bool all_away = false;        ///< or refuse; there are some
  };

  /// @param params  outlive this. @param partial  it goes on without shards that are away
  MergedWatchFsm(const MergeParams& params, bool partial, bool bookmarks) noexcept
      : params_(params), partial_(partial), bookmarks_(bookmarks) {}

  /// @{ Until the head is out.
  struct Start {
    bool from_state = false;   ///< with the present objects of all shards
    bool marks_end = false;    ///< a bookmark ends them (AGG-802)
    bool by_sequence = false;  ///< cursors are numbers
    std::uint32_t generation = 0;
  };
  /// It begins here; it follows shards from now on.
  void on_start(const Start& start) noexcept;
  [[nodiscard]] Action on_answers(const Answers& answers, TimePoint now) noexcept;
  /// Its head is late. @param dials  some shard has no connection yet
  [[nodiscard]] Action on_headers_late(bool dials) noexcept;  /// @}

  /// @{ Shards.
  /// One that has not accepted could not be had; it is asked again.
  [[nodiscard]] Action on_shard_lost() noexcept;
  /// One that has given some of the present objects, and not all.
  [[nodiscard]] Action on_half_lost() const noexcept;
  /// One refuses. @param retry_after  [s]
  [[nodiscard]] Action on_refused(int status, bool all_refuse, int retry_after) noexcept;
  /// @param since  since when one was not heard; max: all are there
  [[nodiscard]] Action on_silence(TimePoint since, TimePoint now) const noexcept;  /// @}

  /// @{ Present objects.
  /// An object of a stream of its own has come.
  void on_progress(TimePoint now) noexcept {
    last_progress_ = now;
    stale_ = true;
  }
  /// The client was given all of them.
  [[nodiscard]] Action on_present_told() noexcept;
  /// @param held_back  by the client, who takes them slowly. @param kind_known  a bookmark could be
  /// made
  [[nodiscard]] Action on_present_late(bool held_back, bool kind_known, TimePoint now) noexcept;
  /// @}

  /// @{ Where the client is (AGG-514).
  struct Moved {
    std::size_t slots = 0;         ///< that it follows
    std::size_t cursor_slots = 0;  ///< that a cursor has
    bool by_event = true;          ///< not by a bookmark of a shard alone
  };
  /// A component has moved.
  [[nodiscard]] Action on_moved(const Moved& what, TimePoint now) noexcept;
  /// @param owes  of the group: events are left out that are made up for soon. @param can_tell  the
  /// kind is known, and no shard is about to leave
  [[nodiscard]] Action on_bookmark_wanted(bool owes, bool can_tell, TimePoint now) noexcept;
  [[nodiscard]] Action on_bookmark_due(TimePoint now) noexcept;
  void on_bookmark_sent(TimePoint now) noexcept;
  /// No bookmark is awaited any more. @returns whether one was
  [[nodiscard]] bool forget_bookmark() noexcept;  /// @}

  /// @{ Slots and rights.
  /// The slots may be others. @returns their generation until now
  std::uint32_t on_slots(std::uint32_t generation) noexcept;
  /// A shard has left: no cursor is told until the table says so. @param before  of on_slots()
  void on_departure(std::uint32_t before, TimePoint now) noexcept;
  /// What the new slots mean for what the client has. @param lost_objects  it has some of a shard
  /// that left. @param rolled_back  a shard is back with an older store
  /// @returns why it has to list again; "": it need not
  [[nodiscard]] std::string_view on_followed(bool by_sequence, bool lost_objects,
                                             bool rolled_back) const noexcept;
  /// A right that it lives by cannot be told any more, or means another group.
  [[nodiscard]] Action on_unreviewed() const noexcept;  /// @}

  /// @{ Ends.
  /// It has lost events: it is told in its turn, after `delay`, and reads on until then.
  [[nodiscard]] Action on_expired(std::string_view reason, Duration delay) noexcept;
  [[nodiscard]] Action on_doom(std::string_view reason) const noexcept;
  /// It is too far behind, or too much waits for all.
  [[nodiscard]] Action on_too_much() noexcept;
  [[nodiscard]] Action on_grace_over() const noexcept;
  /// The client has taken everything.
  [[nodiscard]] Action on_drained() const noexcept;
  /// It has been long enough, or has to end in order. @param lacks  the client has not been told
  /// what it cannot get any more once it comes back
  [[nodiscard]] Action on_end_wanted(bool lacks, TimePoint now) const noexcept;
  /// Something that is wrong for good is for the client now.
  [[nodiscard]] Action on_error() const noexcept;
  /// @returns false: it had stopped before
  bool on_stop() noexcept;  /// @}

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] Present present() const noexcept { return present_; }
  [[nodiscard]] bool has_ended() const noexcept { return state_ == State::kEnded; }
  /// The client has no answer yet.
  [[nodiscard]] bool is_unanswered() const noexcept {
    return state_ == State::kStarting || state_ == State::kAsking;
  }
  /// Shards are followed.
  [[nodiscard]] bool is_following() const noexcept {
    return state_ != State::kStarting && state_ != State::kEnded;
  }
  /// What comes is sent.
  [[nodiscard]] bool tells() const noexcept {
    return state_ == State::kInitial || state_ == State::kLive;
  }
  /// What waits for it counts: it is neither ended nor about to be cut off.
  [[nodiscard]] bool takes() const noexcept {
    return state_ != State::kCutOff && state_ != State::kEnded;
  }
  /// What was made for this client goes out.
  [[nodiscard]] bool has_head() const noexcept { return tells() || state_ == State::kCutOff; }
  /// 410 comes: where the client is, nobody may say.
  [[nodiscard]] bool is_doomed() const noexcept { return doomed_; }
  [[nodiscard]] bool is_strict() const noexcept { return !partial_; }
  [[nodiscard]] bool wants_bookmarks() const noexcept { return bookmarks_; }
  /// Present objects are waited for.
  [[nodiscard]] bool awaits_present() const noexcept {
    return present_ != Present::kTold && is_following();
  }
  /// Not those of shards that are away.
  [[nodiscard]] bool waives_absent() const noexcept {
    return partial_ || present_ == Present::kGivenUp;
  }
  /// A bookmark is still to end the present objects.
  [[nodiscard]] bool owes_end_mark() const noexcept { return marks_end_; }
  /// A component has moved since the last bookmark.
  [[nodiscard]] bool is_stale() const noexcept { return stale_; }
  void on_position() noexcept { stale_ = true; }
  /// The longest that a shard wants to be left alone before there is an answer [s]; 0: none does.
  [[nodiscard]] int busy() const noexcept { return busy_; }
  /// max: none is awaited.
  [[nodiscard]] TimePoint bookmark_due() const noexcept { return due_; }

 private:
  [[nodiscard]] Action await_bookmark(TimePoint due) noexcept;
  /// Cursors are so long that they go with events only, and rarely.
  [[nodiscard]] bool has_long_cursors(const Moved& what) const noexcept;
  [[nodiscard]] Duration gap_of(const Moved& what) const noexcept;
  /// A client in this state is told where it is.
  [[nodiscard]] bool may_mark() const noexcept {
    return bookmarks_ && !marks_end_ && !doomed_ && has_head();
  }

  const MergeParams& params_;
  TimePoint due_ = TimePoint::max();
  TimePoint last_bookmark_{};
  State state_ = State::kStarting;
  Present present_ = Present::kComing;
  const bool partial_, bookmarks_;
  bool from_state_ = false, marks_end_ = false, by_sequence_ = false;  // see Start
  bool stale_ = false;
  bool doomed_ = false;
  bool dialed_ = false;  // the head was late, and waited for a connection
  int busy_ = 0;
  std::uint32_t generation_ = 0, quiet_generation_ = 0;
  TimePoint quiet_until_{};  // while the generation is still quiet_generation_
  TimePoint begun_at_{}, last_progress_{};
};

/// "starting", "asking", "initial", "live", "cut off", "ended".
[[nodiscard]] std::string_view state_name(MergedWatchFsm::State state) noexcept;

}  // namespace kintsugi::aggregation
