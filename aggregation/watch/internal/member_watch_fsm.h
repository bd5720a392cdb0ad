#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/watch_text.h"
#include "base/error.h"
#include "base/time.h"

namespace kintsugi::aggregation {

struct MemberWatchParams {
  Duration first_backoff, last_backoff;  ///< before the shard is asked again, doubled in between
  Duration reprobe;     ///< before a shard that lacks the resource, or refuses, is asked again
  Duration rights_age;  ///< of a 403 before one is believed of a shard that was away
  /// The proxy reads with its own credential: that the shard refuses it says nothing of the client.
  bool reviewed = false;
  /// The client's own token is passed on: a 401 is the client's.
  bool bearer = false;
};

/// Decides what becomes of one shard's share of a merged watch: what it asks, what an answer or an
/// event means, when it asks again, and from where (AGG-707). No sockets, no clock, no allocation:
/// the driver (MemberWatch) carries out each Action at once, and tells what came of it. A Tell
/// action may stop() the machine; after that everything is kNone.
/// Threads: one at a time.
class MemberWatchFsm {
 public:
  enum class State : std::uint8_t {
    kOpening,     ///< asked, by a watch or a list: no answer yet that will do
    kInitial,     ///< present objects come, by a watch or a list
    kCatchingUp,  ///< live; what the stream begins with may have been told before
    kLive,        ///< in step
    kWaiting,     ///< lost, for the next attempt
    kAbsent,      ///< the shard does not serve the resource: asked again now and then
    kStopped      ///< for ever
  };
  /// What the sink was given of the objects that were there at the beginning. Only grows: of a
  /// shard that lacked the resource then, all were given.
  enum class Present : std::uint8_t {
    kNone,
    kSome,  ///< a loss cannot be made good: those that are gone meanwhile would stay
    kAll    ///< or there are none, or nobody wanted them
  };
  /// Why the rest of what comes now is left: on_batch_end() decides. kNone unless is_open().
  enum class Fault : std::uint8_t {
    kNone,
    kMalformed,  ///< an event could not be understood, or was an ERROR
    kSequence,   ///< its revision might be a sequence cursor's (AGG-517)
    kDenied,     ///< ERROR 403: a right was taken back (SE-047); asked again, the shard says whose
    kNoInitial,  ///< ERROR instead of the first present object: the shard has to be listed
  };
  /// What an event is.
  enum class Taken : std::uint8_t {
    kNothing,     ///< stopped, or behind a fault
    kPresent,     ///< an object for the sink that was there at the beginning
    kChange,      ///< a change for the sink, and for who shares the stream
    kLateChange,  ///< the same, behind a newer one (AGG-703)
    kReplay,      ///< it was told before: no more than where the stream is
    kBookmark,
    kInitialEnd,  ///< a bookmark: the sink has all present objects
    kMalformed    ///< of no known type
  };
  struct Action {
    enum class Kind : std::uint8_t {
      kNone,
      kWatch,       ///< ask for what question() says
      kList,        ///< end the watch, list the present objects; `reason`: label of the emulation
      kRest,        ///< end what runs, on_open() after `wait`, give or take
      kAccepted,    ///< tell the sink that the shard serves it
      kInitialEnd,  ///< tell the sink that it has all present objects, then on_open()
      kAbsent,      ///< end what runs, tell the sink, on_open() after `wait`
      kRefused,     ///< tell the sink, then on_refusal_told()
      kLost,        ///< end what runs, tell the sink, then on_loss_told()
      kExpired,     ///< end what runs for ever, tell the sink
    };
    Kind kind = Kind::kNone;
    std::string_view cause = {};   ///< kLost: for people; "": it answers `status`
    int status = 0;                ///< kLost, kRefused
    std::string_view reason = {};  ///< kLost: label of the failure, "": none; kList: see there
    bool often = false;            ///< kLost: its events cannot be understood time and again
    Duration wait{};               ///< kRest, kAbsent
  };

  MemberWatchFsm(const MemberWatchParams& params, const WatchStart& start) noexcept;

  /// @{ Asking.
  /// The first time, when a rest is over, or again. @param by_list  the shard's present objects are
  /// listed for now
  [[nodiscard]] Action on_open(bool by_list) noexcept;
  /// No connection to the shard. @param cause  for people
  [[nodiscard]] Action on_unreachable(std::string_view cause, TimePoint now) noexcept;
  /// The shard's revisions are too large for cursors (AGG-517).
  [[nodiscard]] Action on_sequence_clash(TimePoint now) noexcept;
  /// The watch has an answer that will do.
  [[nodiscard]] Action on_accepted() noexcept;
  /// It has one in another coding than the other shards': the first time it is asked for theirs.
  /// @param cause  for people
  [[nodiscard]] Action on_other_coding(std::string_view cause, TimePoint now) noexcept;
  /// The shard may serve what it lacked.
  [[nodiscard]] Action on_look_again() noexcept;  /// @}

  /// @{ Events of the shard, of the watch or a list. Only on_event() is on the path of each.
  /// @param type  no error. @param revision  of the object, not 0
  [[nodiscard]] Taken on_event(EventType type, std::uint64_t revision, bool initial_end) noexcept;
  /// An event that is not understood, or not what the stream is about.
  void on_malformed() noexcept;
  /// An event whose revision is as on_sequence_clash() says.
  void on_sequence_event() noexcept;
  /// @param code  of the Status, 0: none
  [[nodiscard]] Action on_error_event(std::int64_t code) noexcept;
  /// What came in this turn is through, and the sink knows. @param cut  it is no sequence of events
  [[nodiscard]] Action on_batch_end(bool cut, TimePoint now) noexcept;  /// @}

  /// @{ Ends.
  /// The watch is over. @param cause  kOk: in order. @param status  of the answer, 0: none came
  /// @param verdict  of an answer that will not do
  [[nodiscard]] Action on_end(Errc cause, int status, ShardVerdict verdict, TimePoint now) noexcept;
  /// The sink knows of the refusal, and has not stopped. @param retry_after  [s], of a 429
  [[nodiscard]] Action on_refusal_told(int status, int retry_after, TimePoint now) noexcept;
  /// @param again  the sink wants another attempt
  [[nodiscard]] Action on_loss_told(bool again) noexcept;
  void stop() noexcept { state_ = State::kStopped; }  /// @}

  /// @{ Initial events that are brought to an end without the watch (InitialPhase).
  /// The list that stands in for them has begun.
  [[nodiscard]] Action on_list_accepted() noexcept;
  /// What came of the list in this turn is through, and the sink knows.
  [[nodiscard]] Action on_list_batch_end(TimePoint now) noexcept;
  /// All present objects were told, as of `revision`. @param clash  see on_sequence_clash()
  [[nodiscard]] Action on_present_told(std::uint64_t revision, bool clash, TimePoint now) noexcept;
  /// The shard lacks the resource, or says nothing of it.
  [[nodiscard]] Action on_lacking() noexcept;
  [[nodiscard]] Action on_list_refused(int status, TimePoint now) noexcept;
  [[nodiscard]] Action on_list_lost(std::string_view cause, TimePoint now) noexcept;
  /// What the sink has is complete although no initial events came.
  void on_present_known() noexcept { present_ = Present::kAll; }  /// @}

  /// @{ A stream that other loops have too (StreamShare).
  /// Another loop's stream is read from now on.
  void on_joined() noexcept;
  /// That one is gone. @param away  its shard does not answer
  [[nodiscard]] Action on_home_lost(bool away) noexcept;  /// @}

  [[nodiscard]] State state() const noexcept { return state_; }
  /// Objects change, as far as the sink knows.
  [[nodiscard]] bool is_live() const noexcept {
    return state_ == State::kLive || state_ == State::kCatchingUp;
  }
  /// A stream or a list brings events.
  [[nodiscard]] bool is_open() const noexcept { return is_live() || state_ == State::kInitial; }
  /// It is asked, or a stream or a list brings events. Nothing else comes in any other state.
  [[nodiscard]] bool is_asked() const noexcept { return is_open() || state_ == State::kOpening; }
  /// Present objects come, or are asked for.
  [[nodiscard]] bool brings_present() const noexcept {
    return state_ == State::kInitial || (state_ == State::kOpening && start_.initial_events);
  }
  [[nodiscard]] Present present() const noexcept { return present_; }
  /// The sink was given some of the present objects, and not all: of the beginning, or of a shard
  /// that has lacked the resource until now. A loss cannot be made good.
  [[nodiscard]] bool is_half_told() const noexcept;
  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  /// What the shard is asked for.
  [[nodiscard]] const WatchStart& question() const noexcept { return start_; }
  /// It is asked for the one coding that the others speak.
  [[nodiscard]] bool is_narrowed() const noexcept { return narrowed_; }
  /// Up to where everything was given to the sink; 0: nothing, kBegun: some of the present objects.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  /// An event or a bookmark has come.
  [[nodiscard]] bool has_spoken() const noexcept { return spoken_; }
  /// Since when the shard has not been heard; TimePoint::max(): it is there.
  [[nodiscard]] TimePoint silent_since() const noexcept { return loss_.since; }
  /// Since it was heard last it has been out of reach, cut off, or out of order.
  [[nodiscard]] bool was_away() const noexcept { return loss_.away; }
  /// It answers 403, and that is believed.
  [[nodiscard]] bool is_refused() const noexcept { return loss_.refused; }

 private:
  [[nodiscard]] Action lose(std::string_view cause, int status, std::string_view reason,
                            TimePoint now) noexcept;
  [[nodiscard]] Action lose_broken(std::string_view cause, TimePoint now) noexcept;
  [[nodiscard]] Action list_instead(std::string_view reason) noexcept;
  [[nodiscard]] Action refuse(int status, ShardVerdict verdict, TimePoint now) noexcept;
  /// A 403 that is none of the client's: of the proxy's own credential, or of a shard that was away
  /// and has just started: it knows of no rights yet, and only what it says after rights_age is
  /// believed. Who ended its stream in order, perhaps because a right was taken away, is believed
  /// at once. kNone: it is the client's.
  [[nodiscard]] Action excuse(int status, TimePoint now) noexcept;
  [[nodiscard]] Action tell_refusal(int status) noexcept;
  [[nodiscard]] Action be_absent() noexcept;
  [[nodiscard]] Action expire() noexcept;
  void be_heard() noexcept;
  /// From position() on.
  void resume() noexcept { start_ = WatchStart{position_, false, false, false}; }
  /// Of a stream that was asked as question() says, behind its present objects.
  [[nodiscard]] State running() const noexcept {
    return start_.revision != 0 ? State::kCatchingUp : State::kLive;
  }

  const MemberWatchParams params_;
  WatchStart start_;
  std::uint64_t position_;
  State state_ = State::kOpening;
  Present present_ = Present::kNone;
  Fault fault_ = Fault::kNone;
  bool narrowed_ = false;  // for good
  bool spoken_ = false;    // for good
  Duration backoff_;
  Duration rest_{};  // before the next attempt, at least
  /// What has been since the shard was heard last.
  struct Loss {
    TimePoint since = TimePoint::max();         ///< max: it is there
    TimePoint denied_since = TimePoint::max();  ///< the first 403 that was not believed
    bool away = false, refused = false;
  };
  Loss loss_;
  std::array<TimePoint, 2> malformed_{};  // when its events could not be understood last
};

/// Label of the failure of a shard whose events cannot be understood.
inline constexpr std::string_view kReasonMalformed = "malformed";

/// "opening", "initial", "live", "waiting", "absent", "stopped": catching up is live to people.
[[nodiscard]] std::string_view state_name(MemberWatchFsm::State state) noexcept;

}  // namespace kintsugi::aggregation
