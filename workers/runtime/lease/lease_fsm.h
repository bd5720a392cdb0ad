#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "workers/runtime/lease/lease_record.h"

namespace kintsugi::workers {

struct LeaseParams {
  std::string name;
  std::string identity;             ///< lease_identity()
  Duration duration = seconds(15);  ///< whole seconds: what others wait for
  Duration renew = seconds(2);      ///< between two renewals
  Duration give_up = seconds(10);   ///< after the last success nothing is written
  Duration retry = seconds(1);      ///< between two looks, and after a failure (+ jitter)
  Duration request_timeout = milliseconds(2'000);  ///< of each request
  std::int64_t epoch_floor = 0;                    ///< the journal's last epoch
  std::uint64_t seed = 1;                          ///< of the jitter
};

/// `0 < renew < give_up < duration`, duration in whole seconds up to an hour, 0 < retry <= give_up,
/// 0 < request_timeout < give_up, name and identity not empty. Source: RT-51.
/// @error kConfig  the message names the field.
[[nodiscard]] Expected<void> validate(const LeaseParams& params);

/// What a LeaseFsm wants; one step may want several of these at once.
struct LeaseAction {
  enum class Request : std::uint8_t {
    kNone,
    kGet,     ///< answer: on_found, on_missing, on_failed
    kCreate,  ///< body: lease_body(write, …); answer: on_written, on_conflict, on_failed
    kUpdate,  ///< PUT of the body; answer: on_written, on_conflict, on_missing, on_failed
  };
  enum class Change : std::uint8_t {
    kNone,
    kAcquired,  ///< holder now, with epoch()
    kRaised,    ///< still holder, with a higher epoch()
    kLost,      ///< no longer holder: stop within this turn, cancel what is under way
    kReleased,  ///< the end after release()
  };
  Request request = Request::kNone;
  LeaseWrite write;    ///< of kCreate and kUpdate
  Duration timeout{};  ///< of the request; then on_failed
  Change change = Change::kNone;
  TimePoint wake = TimePoint::max();  ///< call on_timer then; replaces the earlier one
};

/// Holds one Lease or waits for it. Source: RT-50 … RT-56, section 18.
/// No sockets, no clock: time comes in, and it is monotonic; the driver alone knows a wall clock,
/// for lease_body(). At most one request is under way, and each gets exactly one answer, at the
/// latest after its timeout. An answer that came too late for the driver was on_failed; what the
/// server may have done with it is found out by reading.
/// Safe against: lost and late answers (an unknown outcome never counts as success), a paused
/// process (the time of the last success is that of sending), deletion, records of other clocks.
/// Threads: one at a time. Cost: O(annotations) a step.
class LeaseFsm {
 public:
  explicit LeaseFsm(LeaseParams params);

  [[nodiscard]] LeaseAction start(TimePoint now);
  [[nodiscard]] LeaseAction on_found(LeaseRecord record, TimePoint now);
  [[nodiscard]] LeaseAction on_missing(TimePoint now);
  /// 201 or 200 with the Lease as stored.
  [[nodiscard]] LeaseAction on_written(LeaseRecord record, TimePoint now);
  /// 409, of a create too.
  [[nodiscard]] LeaseAction on_conflict(TimePoint now);
  /// Any other answer, none, or one that is no Lease. @param retry_after  0: none.
  [[nodiscard]] LeaseAction on_failed(Duration retry_after, TimePoint now);
  [[nodiscard]] LeaseAction on_timer(TimePoint now);
  /// A watch saw the Lease; only a hint, any order, may be left out.
  [[nodiscard]] LeaseAction on_observed(const LeaseRecord& record, TimePoint now);
  [[nodiscard]] LeaseAction on_observed_deleted(TimePoint now);
  /// A peer refused our epoch and named a higher one; or the journal knows it (RT-54). Beyond
  /// kMaxLeaseEpoch - 1: ignored and counted.
  [[nodiscard]] LeaseAction on_peer_epoch(std::int64_t epoch, TimePoint now);
  /// Sets an annotation, with the next renewal or at once.
  [[nodiscard]] LeaseAction annotate(std::string_view key, std::string_view value, bool urgent,
                                     TimePoint now);
  /// Writes the annotations at once, without waiting for the next renewal.
  [[nodiscard]] LeaseAction hurry(TimePoint now);
  /// Gives the Lease back (RT-56): nothing may be written from here on. Ends with kReleased, also
  /// when the server cannot be reached (3 tries or give_up).
  [[nodiscard]] LeaseAction release(TimePoint now);

  /// The lease guard (RT-55, section 6.5): asked at the time of sending, before every write.
  [[nodiscard]] bool may_write(TimePoint now) const noexcept {
    return state_ == State::kHolder && now <= last_success_ + params_.give_up;
  }
  [[nodiscard]] bool holder() const noexcept { return state_ == State::kHolder; }
  /// A kGet is under way, so its answer is on_found; else it is on_written.
  [[nodiscard]] bool looking() const noexcept { return under_way_ == Purpose::kLook; }
  [[nodiscard]] bool done() const noexcept { return state_ == State::kDone; }
  [[nodiscard]] std::int64_t epoch() const noexcept { return epoch_; }
  /// The last moment at which may_write holds, as of now.
  [[nodiscard]] TimePoint guard_end() const noexcept { return last_success_ + params_.give_up; }
  /// What stands on the Lease as it was last read or written, whoever wrote it; "" for nothing.
  [[nodiscard]] std::string_view annotation(std::string_view key) const noexcept {
    return exists_ ? record_.annotation(key) : std::string_view();
  }
  /// Of the Lease that is held; "" before.
  [[nodiscard]] const std::string& uid() const noexcept { return held_uid_; }
  [[nodiscard]] const LeaseParams& params() const noexcept { return params_; }
  struct Counters {
    std::uint64_t acquired = 0, renewed = 0, lost = 0, conflicts = 0, failures = 0;
    std::uint64_t epochs_refused = 0;  ///< of peers, too high to be raised above
    std::uint64_t exhausted = 0;       ///< not acquired: no epoch is left
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  enum class State : std::uint8_t { kIdle, kCandidate, kHolder, kReleasing, kDone };
  enum class Purpose : std::uint8_t { kNone, kLook, kAcquire, kRenew, kRelease };

  [[nodiscard]] LeaseAction step(TimePoint now);
  void plan(LeaseAction& out, TimePoint now);
  void plan_candidate(LeaseAction& out, TimePoint now);
  void ask(LeaseAction& out, TimePoint now);
  void acquire(LeaseAction& out, TimePoint now);
  void renew(LeaseAction& out, TimePoint now);
  void give_back(LeaseAction& out, TimePoint now);
  void write(LeaseAction& out, Purpose purpose, std::string_view holder, TimePoint now);
  void lose(LeaseAction::Change& change);
  void finish(LeaseAction::Change& change);
  void note(LeaseRecord&& record, TimePoint now);
  void note_missing();
  [[nodiscard]] bool due(TimePoint now) const noexcept;
  [[nodiscard]] TimePoint next_wake() const noexcept;
  [[nodiscard]] TimePoint free_at() const noexcept;
  [[nodiscard]] Duration rest() noexcept;

  LeaseParams params_;
  State state_ = State::kIdle;
  Purpose under_way_ = Purpose::kNone;
  LeaseAction::Change change_ = LeaseAction::Change::kNone;  // of the step that runs
  LeaseRecord record_;                                       // as last read or written
  bool exists_ = false;       // record_ is what the server has, as far as is known
  bool look_ = true;          // read before the next write
  TimePoint seen_{};          // when record_ was first seen as it is
  TimePoint absent_until_{};  // a deleted Lease is not made anew before
  TimePoint next_{};          // no request before
  TimePoint sent_{};          // the request under way
  TimePoint last_success_{};  // sending of the last write that succeeded
  std::string held_uid_;
  std::int64_t epoch_ = 0;
  std::int64_t written_epoch_ = 0;  // of the write under way
  std::int64_t floor_ = 0;          // highest epoch known from anywhere
  std::int64_t raise_above_ = -1;   // a peer's
  std::vector<std::pair<std::string, std::string>> notes_;
  bool urgent_ = false;     // notes_ have to be written
  unsigned failures_ = 0;   // in a row
  unsigned conflicts_ = 0;  // in a row
  unsigned release_tries_ = 0;
  std::uint64_t random_;
  Counters counters_;
};

}  // namespace kintsugi::workers
