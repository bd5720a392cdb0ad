#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

/// Who has a duty: a record that its holder writes again and again, and that others take over when
/// it rests, by a transaction that also writes its epoch, the fence of what the holder writes
/// (GR-207, GR-208). No clock is compared with another's. Times and answers come in, actions go
/// out; revisions are etcd's. Pure.
namespace kintsugi::store::etcd {

struct LeaseParams {
  Duration renew_every = milliseconds(400);
  Duration takeover_after = milliseconds(1'500);  ///< that the record was seen to rest
  /// The holder stops after the sending of the last renewal that was acknowledged. Less than the
  /// takeover, so that one has stopped before the next begins.
  Duration valid_for = milliseconds(1'200);
  Duration retry = milliseconds(100);
};

/// What is stored of a duty.
struct LeaseRecord {
  std::uint64_t record = 0, epoch = 0;  ///< mod_revisions; 0: not there
  std::string holder;                   ///< "": nobody
};

struct LeaseAction {
  enum class Kind : std::uint8_t {
    kLook,     ///< read both keys
    kTake,     ///< where both are as `at` says: write both
    kRenew,    ///< the same: write the record
    kRelease,  ///< where the epoch is as `at` says: write the record without a holder
    kHeld,     ///< from now on, under the fence at.epoch
    kLost,
  } kind = Kind::kLook;
  LeaseRecord at{};
};
using LeaseActions = std::vector<LeaseAction>;

class LeaseBook {
 public:
  /// @param self  who competes; nobody else ever has that name
  explicit LeaseBook(std::string self, LeaseParams params = {})
      : self_(std::move(self)), params_(params) {}

  [[nodiscard]] const std::string& self() const noexcept { return self_; }
  [[nodiscard]] bool is_held() const noexcept { return held_; }
  /// While it is held: at.epoch of kHeld.
  [[nodiscard]] std::uint64_t fence() const noexcept { return known_ ? known_->epoch : 0; }

  // kLook, kTake and kRenew are answered by one of these.
  void on_found(LeaseRecord found, TimePoint now, LeaseActions& out);  ///< and nothing was written
  void on_written(std::uint64_t revision, TimePoint now, LeaseActions& out);
  void on_failed(TimePoint now, LeaseActions& out);

  /// The watch tells that the record was written, or the epoch.
  void on_record(std::uint64_t revision, std::string holder, TimePoint now, LeaseActions& out);
  void on_epoch(std::uint64_t revision, TimePoint now, LeaseActions& out);
  /// Also the begin.
  void on_time(TimePoint now, LeaseActions& out);
  /// It is over; nothing more may come in.
  void release(LeaseActions& out);
  /// When on_time() has something to do; nullopt: after an answer.
  [[nodiscard]] std::optional<TimePoint> next_time() const;

 private:
  void ask(LeaseAction::Kind kind, TimePoint now, LeaseActions& out);
  void lose(TimePoint now, LeaseActions& out);
  [[nodiscard]] TimePoint takeover_at() const;

  std::string self_;
  LeaseParams params_;
  std::optional<LeaseRecord> known_;
  TimePoint changed_at_{};                  // the record was first seen like this
  std::optional<LeaseAction::Kind> asked_;  // what is under way
  TimePoint sent_at_{}, next_at_{}, valid_until_{};
  bool held_ = false;
};

}  // namespace kintsugi::store::etcd
