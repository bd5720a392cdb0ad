#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"
#include "shards/internal/key_table.h"

namespace kintsugi::shards {

/// Names one object among those of an informer. Views live as long as the call that got them.
struct ObjectKey {
  std::string_view cluster;  ///< annotation kcp.io/cluster, else the informer's default
  std::string_view ns;       ///< "" for cluster-scoped kinds
  std::string_view name;
  /// Number of the entry in InformerFsm::keys(), where the call has one: on_upsert and on_delete
  /// (it is free again then).
  KeyTable::Id id = KeyTable::kNone;
};
/// The text under which a key stands in KeyTable, appended; and back, as views into it.
void append_key(std::string& out, const ObjectKey& key);
[[nodiscard]] ObjectKey split_key(std::string_view text) noexcept;
/// What an informer reads of each object. Views into it.
struct ObjectHead {
  ObjectKey key;
  std::string_view uid, revision;
};
[[nodiscard]] ObjectHead object_head(const krm::Json& object, std::string_view default_cluster);
/// Views into the object.
[[nodiscard]] ObjectKey object_key(const krm::Json& object, std::string_view default_cluster);
/// Revisions are opaque; decimal ones keep their value, so that distinct ones never collide.
[[nodiscard]] std::uint64_t revision_number(std::string_view text) noexcept;
/// Answers with which servers turn down sendInitialEvents.
[[nodiscard]] bool turns_down_watch_list(int status) noexcept;

/// Gets what an informer learns. Calls come in the order of the shard's events. None of them may
/// destroy the informer or call it; use Loop::post for that.
class InformerSink {
 public:
  /// A new or changed object. An object whose revision was delivered before is not repeated.
  virtual void on_upsert(const ObjectKey& key, const krm::Json& object) = 0;
  /// Deleted, or no longer in a complete list.
  virtual void on_delete(const ObjectKey& key) = 0;
  /// A complete list has been delivered; repeated after each relist.
  virtual void on_synced() = 0;
  /// The server refused with 4xx (R-10 wants 403 and 404). The informer goes on trying.
  virtual void on_refused(int status) { (void)status; }

 protected:
  ~InformerSink() = default;
};

/// What a reflector of the workers does beyond an informer. Source: worker runtime, RT-13, RT-20 …
/// RT-29, section 18. Beside what is written there:
/// - An item of a list that cannot be read, or a line of initial events, may be any object: such a
///   list deletes nothing. One that can be read but lacks what it must have keeps what is cached of
///   it.
/// - 404 counts as an empty list, and is confirmed like one when it would delete much.
/// - An object or bookmark that names no kind has the expected one.
struct ReflectorRules {
  bool on = false;
  std::string kind;  ///< of the objects; "": any
  /// More of the query, encoded ("labelSelector=a%3Db"); "": none. Also without these rules.
  std::string selector;
  bool one_shard = true;  ///< revisions of events move the cursor, not those of bookmarks alone
  TimePoint no_watch_list_until{};  ///< what an earlier machine for the same resource found out
};

struct InformerParams {
  std::string target;                       ///< path of the collection, without query
  std::string default_cluster;              ///< for objects without the annotation
  std::size_t max_event_bytes = 8U << 20U;  ///< larger events are skipped and logged
  Duration rest_min = milliseconds(100);
  Duration rest_max = seconds(30);
  std::uint64_t seed = 1;  ///< for jitter and timeoutSeconds
  ReflectorRules reflector;
};
/// With the rules on, rests of 0.8 s to 30 s, events of at most 16 MiB.
[[nodiscard]] InformerParams reflector_params(std::string target, std::string kind);

/// Why a reflector lists again.
enum class RelistReason : std::uint8_t {
  kExpired,    ///< 410
  kServer,     ///< ERROR 500 or 503
  kReset,      ///< RST_STREAM
  kOversized,  ///< an event of more than 16 MiB
  kMalformed,  ///< text that is no event
  kRefused,    ///< the cursor was refused several times
  kGuard,      ///< a list that would delete much is confirmed
};
inline constexpr std::size_t kRelistReasons = 7;
/// "expired", for a label.
[[nodiscard]] std::string_view relist_reason_name(RelistReason reason) noexcept;

/// Decides what an informer asks next: WatchList, else LIST in pages, then watches from the last
/// revision, with rests between failures. No sockets, no clock.
/// Source: FP-151; Kubernetes API concepts, "Efficient detection of changes".
/// Every answer that is not kNone replaces what runs: the driver first cancels request and timer.
/// Threads: one at a time.
class InformerFsm {
 public:
  enum class State : std::uint8_t {
    kIdle,      ///< not started, or stopped
    kOpening,   ///< WatchList asked, no head yet
    kInitial,   ///< WatchList running, initial events not complete
    kListing,   ///< a page of LIST asked
    kResuming,  ///< watch from a revision asked, no head yet
    kWatching,  ///< in step
    kResting,   ///< waits before the next try
    kProbing,   ///< one object asked, whether the server lists at all (RT-21)
  };
  struct Action {
    enum class Kind : std::uint8_t { kNone, kWatch, kList, kRest, kCancel };
    Kind kind = Kind::kNone;
    std::string target;  ///< path and query of kWatch and kList
    Duration wait{};     ///< of kRest
  };

  InformerFsm(InformerParams params, InformerSink& sink);

  [[nodiscard]] Action start(TimePoint now);
  /// The head of a watch's answer. @param retry_after seconds, 0 when absent.
  /// @param partial it says that a shard is missing (names_missing_shard).
  [[nodiscard]] Action on_head(int status, int retry_after, TimePoint now, bool partial = false);
  [[nodiscard]] Action on_data(std::string_view bytes, TimePoint now);
  /// The watch ended or could not be opened; kOk: in order.
  [[nodiscard]] Action on_end(Errc cause, TimePoint now);
  /// A complete answer to LIST. @param partial as above.
  [[nodiscard]] Action on_page(int status, int retry_after, std::string_view body, TimePoint now,
                               bool partial = false);
  [[nodiscard]] Action on_page_failed(Errc cause, TimePoint now);
  /// The rest is over, or deadline() has come.
  [[nodiscard]] Action on_timer(TimePoint now);
  /// When a running watch has been silent for too long; moves with each event. max(): never.
  [[nodiscard]] TimePoint deadline() const noexcept;
  /// Another server or, when not empty, another collection: lists again, then drops what is gone.
  [[nodiscard]] Action relist(std::string_view target, TimePoint now);
  /// Ends a rest early (the shard is known to be back).
  [[nodiscard]] Action kick(TimePoint now);
  [[nodiscard]] Action stop();

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] bool synced() const noexcept { return synced_; }
  [[nodiscard]] const std::string& revision() const noexcept { return revision_; }
  [[nodiscard]] const KeyTable& keys() const noexcept { return keys_; }
  [[nodiscard]] const std::string& target() const noexcept { return params_.target; }
  /// The rules of a reflector are on.
  [[nodiscard]] bool reflects() const noexcept { return params_.reflector.on; }
  /// The server does not have the resource: an empty cache that is in step (RT-29).
  [[nodiscard]] bool absent() const noexcept { return absent_; }
  /// 401 or 403 while that is what the server says, else 0.
  [[nodiscard]] int refusal() const noexcept { return refusal_; }
  /// Until when initial events are not asked for; for the next machine of this resource.
  [[nodiscard]] TimePoint no_watch_list_until() const noexcept {
    return params_.reflector.no_watch_list_until;
  }
  struct Counters {
    std::uint64_t events = 0, lists = 0, failures = 0, oversized = 0, malformed = 0;
    // Of reflectors.
    std::uint64_t dropped = 0;        ///< objects without uid, name or revision, or not to be keyed
    std::uint64_t foreign = 0;        ///< events and items of another kind
    std::uint64_t unknown_types = 0;  ///< of events
    std::uint64_t doubtful = 0;       ///< lists that were not taken, or deleted nothing (RT-27)
    std::uint64_t guarded = 0;        ///< lists that had to be confirmed
    std::uint64_t silences = 0;       ///< watches without an event for too long
    std::uint64_t rewatches = 0;      ///< watches from the cursor
    std::array<std::uint64_t, kRelistReasons> relists{};
    int last_status = 0;
    Errc last_cause = Errc::kOk;
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  enum class Verdict : std::uint8_t { kOk, kListAgain, kFailed, kForbidden, kConfirm };
  /// Which list a reflector asks for: from a cache, at the cursor, from the store, that in one
  /// piece (RT-24).
  enum class Rung : std::uint8_t { kCached, kAtCursor, kStored, kUnpaged };
  [[nodiscard]] Action list_again(TimePoint now);
  [[nodiscard]] Action watch_list(TimePoint now);
  [[nodiscard]] Action page(std::string_view token, TimePoint now);
  [[nodiscard]] Action resume(TimePoint now);
  [[nodiscard]] Action rest(int retry_after, TimePoint now);
  [[nodiscard]] Action next(TimePoint now);
  [[nodiscard]] Action expired(RelistReason reason, TimePoint now);
  [[nodiscard]] Action refused(int status, int retry_after, TimePoint now);
  [[nodiscard]] Action follow(Verdict verdict, TimePoint now);
  Verdict take_event(std::string_view line, TimePoint now);
  Verdict take_error(const krm::Json& status);
  [[nodiscard]] ObjectHead head_of(const krm::Json& object) const {
    return object_head(object, params_.default_cluster);
  }
  void upsert(const krm::Json& object, const ObjectHead& head);
  void remove(const ObjectHead& head);
  void complete_list();
  void forget_revision();
  [[nodiscard]] std::uint64_t random() noexcept;
  [[nodiscard]] std::string timeout() noexcept;
  [[nodiscard]] std::string selector() const;  // to be appended
  [[nodiscard]] std::string_view key_text(const ObjectKey& key);

  // Of reflectors (reflector_fsm.cc).
  [[nodiscard]] bool watch_list_allowed(TimePoint now) const noexcept;
  void avoid_watch_list(TimePoint now) noexcept;
  [[nodiscard]] Action begin_reflecting(TimePoint now);
  [[nodiscard]] Action climb(Rung rung, TimePoint now);
  [[nodiscard]] Action ladder_page(std::string_view token, TimePoint now);
  [[nodiscard]] Action reflector_rest(int retry_after, TimePoint now);
  [[nodiscard]] Action take_head(int status, int retry_after, TimePoint now);
  [[nodiscard]] Action take_end(Errc cause, TimePoint now);
  [[nodiscard]] Action take_page(std::string_view body, bool partial, TimePoint now);
  [[nodiscard]] Action page_refused(int status, int retry_after, std::string_view body,
                                    TimePoint now);
  [[nodiscard]] Action page_lost(Errc cause, TimePoint now);
  [[nodiscard]] Action take_probe(int status, int retry_after, TimePoint now);
  [[nodiscard]] Action take_silence(TimePoint now);
  [[nodiscard]] Action forbidden(int status);
  [[nodiscard]] Action absence(TimePoint now);
  [[nodiscard]] Action doubt(TimePoint now);
  [[nodiscard]] bool needs_confirmation();
  void settle(TimePoint now) noexcept;
  Verdict take_reflected(std::string_view line, TimePoint now);
  Verdict take_reflected_error(const krm::Json& status);
  void take_item(std::string_view text);
  /// @param duplicates its text names a member twice.
  [[nodiscard]] bool admit(const ObjectHead& head, bool duplicates);
  [[nodiscard]] bool is_foreign(const krm::Json& object) const noexcept;

  InformerParams params_;
  InformerSink& sink_;
  State state_ = State::kIdle;
  KeyTable keys_;
  std::string revision_;   // "": list first
  std::string buffer_;     // an event that is not complete yet
  std::string key_;        // scratch
  bool skipping_ = false;  // inside an oversized event
  bool watch_list_works_ = true;
  bool cached_list_works_ = true;
  bool synced_ = false;
  unsigned failures_ = 0;     // in a row, for the back-off
  unsigned refusals_ = 0;     // of resumptions, in a row
  unsigned expirations_ = 0;  // in a row
  TimePoint opened_{};
  std::uint64_t random_;
  Counters counters_;

  // Of reflectors.
  Rung rung_ = Rung::kCached;
  std::string last_;           // the cursor before the present list; "": unknown or expired
  bool listed_ = false;        // a list of this server was complete
  bool first_page_ = true;     // asked now
  bool asks_feature_ = false;  // a watch with initial events got 404: does a list, too?
  bool confirming_ = false;    // the present list decides about deletes in doubt
  bool unreadable_ = false;    // something of the present list was
  bool absent_ = false;
  bool asked_to_wait_ = false;  // the rest is Retry-After's
  bool heard_byte_ = false;     // of the running watch
  bool heard_event_ = false;
  int refusal_ = 0;
  int wait_asked_ = 0;                            // by an ERROR event [s]
  unsigned asked_waits_ = 0;                      // in a row
  std::size_t before_ = 0;                        // objects when the list began
  TimePoint heard_at_{};                          // head or last event
  RelistReason reason_ = RelistReason::kExpired;  // of Verdict::kListAgain
  std::optional<TimePoint> healthy_since_;
};

}  // namespace kintsugi::shards
