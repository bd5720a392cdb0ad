#pragma once

#include <cstdint>
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
};

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

struct InformerParams {
  std::string target;                       ///< path of the collection, without query
  std::string default_cluster;              ///< for objects without the annotation
  std::size_t max_event_bytes = 8U << 20U;  ///< larger events are skipped and logged
  Duration rest_min = milliseconds(100);
  Duration rest_max = seconds(30);
  std::uint64_t seed = 1;  ///< for jitter and timeoutSeconds
};

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
  [[nodiscard]] Action on_head(int status, int retry_after, TimePoint now);
  [[nodiscard]] Action on_data(std::string_view bytes, TimePoint now);
  /// The watch ended or could not be opened; kOk: in order.
  [[nodiscard]] Action on_end(Errc cause, TimePoint now);
  /// A complete answer to LIST.
  [[nodiscard]] Action on_page(int status, int retry_after, std::string_view body, TimePoint now);
  [[nodiscard]] Action on_page_failed(Errc cause, TimePoint now);
  /// The rest is over.
  [[nodiscard]] Action on_timer(TimePoint now);
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
  struct Counters {
    std::uint64_t events = 0, lists = 0, failures = 0, oversized = 0, malformed = 0;
    int last_status = 0;
    Errc last_cause = Errc::kOk;
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  enum class Verdict : std::uint8_t { kOk, kListAgain, kFailed };
  [[nodiscard]] Action list_again(TimePoint now);
  [[nodiscard]] Action watch_list(TimePoint now);
  [[nodiscard]] Action page(std::string_view token, TimePoint now);
  [[nodiscard]] Action resume(TimePoint now);
  [[nodiscard]] Action rest(int retry_after);
  [[nodiscard]] Action next(TimePoint now);
  [[nodiscard]] Action expired(TimePoint now);
  [[nodiscard]] Action refused(int status, int retry_after);
  Verdict take_event(std::string_view line);
  Verdict take_error(const krm::Json& status);
  void upsert(const krm::Json& object);
  void remove(const krm::Json& object);
  void complete_list();
  [[nodiscard]] std::uint64_t random() noexcept;
  [[nodiscard]] std::string timeout() noexcept;

  InformerParams params_;
  InformerSink& sink_;
  State state_ = State::kIdle;
  KeyTable keys_;
  std::string revision_;   // "": list first
  std::string buffer_;     // an event that is not complete yet
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
};

}  // namespace kintsugi::shards
