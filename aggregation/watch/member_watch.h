#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/proto_split.h"
#include "aggregation/bytes/watch_coding.h"
#include "aggregation/bytes/watch_text.h"
#include "aggregation/member_call.h"
#include "aggregation/merge_loop.h"
#include "aggregation/watch/internal/initial_phase.h"
#include "aggregation/watch/internal/key_index.h"
#include "aggregation/watch/stream_share.h"
#include "http/handler.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// One shard's share of a merged watch: asks for it, understands its events, and asks again from
/// where it was when the stream ends (AGG-707). What that means for the client is the sink's
/// business. Threads: its loop.
class MemberWatch final : private MemberCall::Listener,
                          private InitialPhase::Host,
                          private StreamShare::Stream {
 public:
  enum class State : std::uint8_t {
    kOpening,
    kInitial,  ///< present objects come
    kLive,
    kWaiting,  ///< for the next attempt
    kAbsent,   ///< the shard does not serve the resource: asked again now and then
    kStopped
  };

  /// None of these may destroy the watch; all may stop() it.
  class Sink {
   public:
    /// An object has changed, or is one of the present ones; position() says so already. It has its
    /// marker.
    virtual void on_event(MemberWatch& from, const EventFacts& facts,
                          std::string_view event) noexcept = 0;
    /// A bookmark, or an event that was there before. position() may have moved. What is a Table
    /// stream's first has its columns.
    virtual void on_bookmark(MemberWatch& from, const EventFacts& facts) noexcept = 0;
    /// All present objects have come, or there are none.
    virtual void on_initial_end(MemberWatch& from) noexcept = 0;
    /// It has accepted the watch, or lacks the resource (state()).
    virtual void on_accepted(MemberWatch& from) noexcept = 0;
    /// What came in this turn is through.
    virtual void on_batch_end(MemberWatch& from) noexcept = 0;
    /// The stream ended or could not be had. True: try again.
    virtual bool on_lost(MemberWatch& from, std::string_view cause) noexcept = 0;
    /// 410: what is asked for is forgotten. The watch has stopped.
    virtual void on_expired(MemberWatch& from) noexcept = 0;
    /// An answer that trying again does not change, or 404. The watch has stopped after 404 only if
    /// the sink stops it.
    virtual void on_refused(MemberWatch& from, const http::ResponseHead& head,
                            const std::string& body) noexcept = 0;
    /// An event is larger than the limit. The watch has stopped. @param key  "namespace/name" of
    /// its object; "": not known
    virtual void on_too_large(MemberWatch& from, const std::string& key) noexcept = 0;

   protected:
    ~Sink() = default;
  };

  /// @param head  of the request to every shard; has to outlive this, as have `route`, `passed_on`
  /// and `shape`, whose coding it decides if nobody has.
  MemberWatch(MergeLoop& shared, Sink& sink, Member member, const http::RequestHead& head,
              const MergeRoute& route, const std::string& passed_on, StreamShape& shape,
              WatchStart start);
  ~MemberWatch() = default;
  MemberWatch(const MemberWatch&) = delete;
  MemberWatch& operator=(const MemberWatch&) = delete;

  void open();
  /// The shard may serve now what it lacked: it is asked again soon.
  void look_again();
  void stop() noexcept;
  /// Who is told from now on, also of the rest of what is being taken apart right now.
  void set_sink(Sink& sink) noexcept { sink_ = &sink; }
  /// From now on all loops of the process have one such stream between them. @param key  of what
  /// is asked and for whom, without the shard
  void share(std::shared_ptr<StreamHomes> homes, const std::string& key);
  /// It is read from another loop.
  [[nodiscard]] bool is_relayed() const noexcept {
    return share_ != nullptr && share_->role() == StreamShare::Role::kReader;
  }
  /// The client has taken everything: the shard may go on.
  void give_credit() noexcept;

  /// Bytes of the shard wait for their taker, and it for credit.
  [[nodiscard]] bool is_held_back() const noexcept override { return credit_ > 0; }
  /// Its shard has a connection for it: silence is the shard's.
  [[nodiscard]] bool is_connected() const noexcept;
  /// Objects of initial events and later are kept in it; null: no longer.
  void keep_index(std::unique_ptr<KeyIndex> index) noexcept { index_ = std::move(index); }
  [[nodiscard]] KeyIndex* index() const noexcept { return index_.get(); }
  [[nodiscard]] std::unique_ptr<KeyIndex> take_index() noexcept { return std::move(index_); }
  /// The index has every object although no initial events came.
  void finish_initial() noexcept { initial_done_ = true; }

  [[nodiscard]] const Member& member() const noexcept { return member_; }
  [[nodiscard]] State state() const noexcept { return state_; }
  /// Component of the cursor: up to where everything was given to the sink; 0: nothing, kBegun:
  /// some of the present objects.
  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  [[nodiscard]] bool initial_done() const noexcept { return initial_done_; }
  /// It has given some of the present objects, and not all.
  [[nodiscard]] bool half_begun() const noexcept { return delivered_ && !initial_done_; }
  /// Since when the shard has not been heard; TimePoint::max(): it is there.
  [[nodiscard]] TimePoint silent_since() const noexcept { return loss_.since; }
  /// The newest answer of the shard to a watch; status 0: none.
  [[nodiscard]] const http::ResponseHead& answer() const noexcept { return answer_; }
  /// A 403 of the shard that nothing has changed since.
  struct Refusal {
    http::ResponseHead head;
    std::string body;
  };
  /// nullptr: it has accepted since, or never refused.
  [[nodiscard]] const Refusal* refusal() const noexcept { return refusal_.get(); }

 private:
  void on_head(const http::ResponseHead& head) noexcept override;
  void on_data(std::string_view bytes) noexcept override;
  void on_end(Errc cause) noexcept override;
  void on_list_accepted() noexcept override;
  void on_listed_event(std::string_view event) noexcept override { take(event); }
  void on_listed_bytes(std::size_t count) noexcept override;
  void on_phase_end(const StreamKind& kind, std::uint64_t revision) noexcept override;
  void on_phase_absent(const http::ResponseHead& head, const std::string& body) noexcept override {
    be_absent(head, body);
  }
  void on_phase_refused(const http::ResponseHead& head, const std::string& body) noexcept override;
  void on_phase_lost(std::string_view cause) noexcept override { lose(cause, "initial"); }
  void on_joined() noexcept override;
  void on_relayed(std::string_view events) noexcept override;
  void on_home_lost(bool away) noexcept override;
  void be_shared();
  void unshare() noexcept;
  void pass_on(std::string_view event, std::uint64_t revision);
  /// The shard has answered as it should.
  void be_heard() noexcept;
  /// @param reason  label of kintsugi_watchlist_emulated_total
  void list_instead(std::string_view reason);
  void drop_phase();
  void be_absent(const http::ResponseHead& head, const std::string& body);
  void take(std::string_view event);
  void give(const EventFacts& facts, std::string_view event);
  void take_error(std::string_view object);
  void refuse();
  /// What trying again does not change, or only later: told, and then lost.
  void tell_refusal(const http::ResponseHead& head, const std::string& body);
  void lose_broken(std::string_view cause);
  /// The proxy's own credential may not read there: as if the shard were down.
  bool refuses_own(const http::ResponseHead& head);
  /// It was away and says 403: a server that has just started knows of no rights yet. Only what
  /// it says after rights_age is believed. Who ended its stream in order, perhaps because a right
  /// was taken away, is believed at once.
  bool may_have_started(const http::ResponseHead& head);
  /// @param reason  label of kintsugi_shard_failures_total; "": no failure
  void lose(std::string_view cause, std::string_view reason);

  MergeLoop& shared_;
  Sink* sink_;
  Member member_;
  const http::RequestHead& head_;
  const MergeRoute& route_;
  const std::string& passed_on_;
  StreamShape& shape_;
  WatchStart start_;
  MemberCall call_;
  EventSplitter splitter_;
  FrameSplitter frames_;
  net::Timer timer_;
  std::unique_ptr<InitialPhase> phase_;  // while initial events come
  std::unique_ptr<KeyIndex> index_;
  std::unique_ptr<StreamShare> share_;  // null: it is of no other loop's business
  http::ResponseHead answer_;
  std::string error_body_;
  std::uint64_t position_ = 0;
  std::size_t credit_ = 0;  // received and not given back
  Duration backoff_;
  Duration rest_{};                       // before the next attempt, at least
  std::unique_ptr<Refusal> refusal_;      // by 403
  std::array<TimePoint, 2> malformed_{};  // when its events could not be understood last
  /// What has been since the shard was heard last.
  struct Loss {
    TimePoint since = TimePoint::max();         ///< max: it is there
    TimePoint denied_since = TimePoint::max();  ///< the first 403
    bool away = false;                          ///< not reached, cut off, or out of order
  };
  Loss loss_;
  State state_ = State::kOpening;
  bool has_spoken_ = false;  // an event or a bookmark has come
  bool initial_done_ = false;
  bool delivered_ = false;
  bool resumed_ = false;    // events up to position_ may come again
  bool narrowed_ = false;   // asked for the one encoding that the others speak
  bool broken_ = false;     // an event could not be understood
  bool too_large_ = false;  // because its number might be a sequence cursor's
  bool refuses_ = false;    // initial events, by an ERROR event
};

/// What a client is told of an event larger than the limit (AGG-1205).
[[nodiscard]] Error event_too_large(const MemberWatch& from, const std::string& key,
                                    std::size_t limit);
/// "opening", "initial", "live", "waiting", "absent", "stopped".
[[nodiscard]] std::string_view state_name(MemberWatch::State state) noexcept;

}  // namespace kintsugi::aggregation
