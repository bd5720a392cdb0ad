#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/member_call.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/proto_split.h"
#include "aggregation/bytes/watch_coding.h"
#include "aggregation/bytes/watch_text.h"
#include "aggregation/watch/internal/initial_phase.h"
#include "aggregation/watch/internal/key_index.h"
#include "aggregation/watch/internal/member_watch_fsm.h"
#include "aggregation/watch/stream_share.h"
#include "http/handler.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// One shard's share of a merged watch: asks for it, takes its events apart, and asks again from
/// where it was when the stream ends (AGG-707): what it does and when is decided by MemberWatchFsm,
/// here are the connection, the timer and the bytes. What all that means for the client is the
/// sink's business. Threads: its loop.
class MemberWatch final : private MemberCall::Listener,
                          private InitialPhase::Host,
                          private StreamShare::Stream {
 public:
  using State = MemberWatchFsm::State;

  /// None of these may destroy the watch; all may stop() it.
  class Sink {
   public:
    /// An object has changed, or is one of the present ones; position() says so already. It has its
    /// marker.
    virtual void on_event(MemberWatch& from, const EventFacts& facts, std::string_view event) = 0;
    /// A bookmark, or an event that was there before. position() may have moved. What is a Table
    /// stream's first has its columns.
    virtual void on_bookmark(MemberWatch& from, const EventFacts& facts) = 0;
    /// All present objects have come, or there are none.
    virtual void on_initial_end(MemberWatch& from) = 0;
    /// It has accepted the watch, or lacks the resource (state()).
    virtual void on_accepted(MemberWatch& from) = 0;
    /// What came in this turn is through.
    virtual void on_batch_end(MemberWatch& from) = 0;
    /// The stream ended or could not be had. True: try again.
    virtual bool on_lost(MemberWatch& from, std::string_view cause) = 0;
    /// 410: what is asked for is forgotten. The watch has stopped.
    virtual void on_expired(MemberWatch& from) = 0;
    /// An answer that trying again does not change, or 404. The watch has stopped after 404 only if
    /// the sink stops it.
    virtual void on_refused(MemberWatch& from, const http::ResponseHead& head,
                            const std::string& body) = 0;
    /// An event is larger than the limit. The watch has stopped. @param key  "namespace/name" of
    /// its object; "": not known
    virtual void on_too_large(MemberWatch& from, const std::string& key) = 0;
    /// One of these has thrown. The watch has stopped.
    virtual void on_fault(MemberWatch& from) = 0;

   protected:
    ~Sink() = default;
  };

  /// @param question  outlives this; its coding is decided here if nobody has
  MemberWatch(Asking& shared, Sink& sink, Member member, ShardQuestion& question, WatchStart start);
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
  void finish_initial() noexcept { fsm_.on_present_known(); }

  [[nodiscard]] const Member& member() const noexcept { return member_; }
  [[nodiscard]] State state() const noexcept { return fsm_.state(); }
  [[nodiscard]] bool is_live() const noexcept { return fsm_.is_live(); }
  /// Component of the cursor: up to where everything was given to the sink; 0: nothing, kBegun:
  /// some of the present objects.
  [[nodiscard]] std::uint64_t position() const noexcept override { return fsm_.position(); }
  [[nodiscard]] bool initial_done() const noexcept {
    return fsm_.present() == MemberWatchFsm::Present::kAll;
  }
  /// It has given some of the present objects, and not all, then or since its shard serves them.
  [[nodiscard]] bool half_begun() const noexcept { return fsm_.is_half_told(); }
  /// Since when the shard has not been heard; TimePoint::max(): it is there.
  [[nodiscard]] TimePoint silent_since() const noexcept { return fsm_.silent_since(); }
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
  void on_head(const http::ResponseHead& head) override;
  void on_data(std::string_view bytes) override;
  void on_end(Errc cause) override;
  void on_fault() override;
  void on_list_accepted() override;
  void on_listed_event(std::string_view event) override { take(event); }
  void on_listed_bytes(std::size_t count) override;
  void on_phase_end(const StreamKind& kind, std::uint64_t revision) override;
  void on_phase_absent(const http::ResponseHead& head, const std::string& body) override;
  void on_phase_refused(const http::ResponseHead& head, const std::string& body) override;
  void on_phase_lost(std::string_view cause) override;
  void on_joined() noexcept override;
  void on_relayed(std::string_view events) noexcept override;
  void on_home_lost(bool away) noexcept override;
  void be_shared();
  void unshare() noexcept;
  void pass_on(std::string_view event, std::uint64_t revision);
  /// Carries out what the machine says. @param head, body  of the shard's answer, for kRefused and
  /// kAbsent
  void perform(const MemberWatchFsm::Action& action, const http::ResponseHead& head,
               const std::string& body);
  void perform(const MemberWatchFsm::Action& action) { perform(action, answer_, error_body_); }
  void reopen();
  void ask();
  void list(std::string_view reason);
  void tell_loss(const MemberWatchFsm::Action& action);
  void tell_absent(Duration wait, const http::ResponseHead& head, const std::string& body);
  void tell_refusal(const http::ResponseHead& head, const std::string& body);
  /// Nothing runs any more; for good.
  void end() noexcept;
  void begin_stream();
  void drop_phase();
  void take(std::string_view event);
  /// An event that the machine wants to be told of, in the form that the client gets.
  void mark(const EventFacts& facts, std::string_view event);
  void give(const EventFacts& facts, std::string_view event);

  Asking& shared_;
  Sink* sink_;
  Member member_;
  ShardQuestion& question_;
  MemberWatchFsm fsm_;
  MemberCall call_;
  EventSplitter splitter_;
  FrameSplitter frames_;
  net::Timer timer_;
  std::unique_ptr<InitialPhase> phase_;  // while initial events come
  std::unique_ptr<KeyIndex> index_;
  std::unique_ptr<StreamShare> share_;  // null: it is of no other loop's business
  http::ResponseHead answer_;
  std::string error_body_;
  std::size_t credit_ = 0;            // received and not given back
  std::unique_ptr<Refusal> refusal_;  // null unless the machine is_refused()
};

/// What a client is told of an event larger than the limit (AGG-1205).
[[nodiscard]] Error event_too_large(const MemberWatch& from, const std::string& key,
                                    std::size_t limit);

}  // namespace kintsugi::aggregation
