#include "proxy/forwarding/forward.h"

#include <algorithm>
#include <string>
#include <utility>

#include "auth/x509_identity.h"
#include "base/guard.h"
#include "base/memory.h"
#include "base/strings.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "krm/status.h"
#include "proxy/forwarding/internal/pending_request.h"
#include "proxy/forwarding/internal/watch_tail.h"
#include "proxy/forwarding/open_bounds.h"
#include "serving/answer.h"
#include "serving/fair_seats.h"
#include "serving/identity.h"
#include "serving/moving.h"
#include "shards/answer_log.h"

namespace kintsugi::proxy {
namespace {

constexpr std::size_t kHighMark = 64U << 10;
constexpr std::uint8_t kMaxAttempts = 3;
constexpr Duration kRetryPause = milliseconds(25);

class Forward final : public http::RequestHandler,
                      private serving::WatchDrain::Watch,
                      private net::BodyHold::Owner {
 public:
  Forward(ForwardLoop& shared, http::RequestHead&& head, http::ResponseStream& stream,
          shards::ShardClient& client, bool is_watch, std::function<void()> unreachable,
          std::shared_ptr<AccessNote> note, std::string body = {})
      : Watch(auth::proof_of(stream.peer())),
        shared_(shared),
        down_(stream),
        client_(client.handle()),
        source_(&client),
        server_(*shared.stats.servers.try_emplace(client.name()).first),
        tally_(shared.stats.times, server_.second, head.method, kind_of(head, is_watch),
               shared.loop.now(), std::move(note)),
        up_side_(*this) {
    const std::string_view method = head.method;
    asks_watch_ = is_watch;
    watch_ = method == "GET" && is_watch;
    idempotent_ = is_repeatable(method, head.target);
    upgrade_ = !head.protocol.empty();
    web_socket_ = equals_ignore_case(head.protocol, "websocket");
    pending_ = std::make_unique<Pending>(shared.loop, std::move(head));
    if (!body.empty()) {
      pending_->body_bytes = body.size();
      pending_->replayable = body.size() <= shared.limits.replay_bytes;
      pending_->replay = std::move(body);
      pending_->body_ended = true;
    } else if (!pending_->bodiless && !upgrade_) {
      pending_->awaits = announced(pending_->head) <= kUnread;
      pending_->hold =
          std::make_unique<net::BodyHold>(shared.bodies, static_cast<net::BodyHold::Owner&>(*this));
    }
    pending_->unreachable = std::move(unreachable);
    ++stats().requests;
    ++stats().streams;
    stats().watches += watch_ ? 1U : 0U;
    if (pending_->hold != nullptr && announced(pending_->head) > shared.limits.body_bytes) {
      refuse(serving::body_too_large(shared.limits.body_bytes), ForwardFault::kRefused);
    } else if (!pending_->awaits) {
      open();
    }
  }
  ~Forward() override {
    leave();
    tally_.end(shared_.loop.now());
    --stats().streams;
    stats().watches -= watch_ ? 1U : 0U;
    if (up_ != nullptr) {
      up_->detach();
    }
  }

  // The client's side.
  void on_data(std::string_view bytes, bool end) noexcept override {
    tally_.up(bytes.size());
    touch();
    if (answered_) {
      down_.consume(bytes.size());
      return;
    }
    if (pending_ && !keep_for_replay(bytes, end)) {
      return;
    }
    if (pending_ && pending_->awaits) {
      await(bytes.size(), end);
      return;
    }
    if (up_ == nullptr) {
      down_.consume(bytes.size());  // kept in the replay buffer, sent with the next attempt
      return;
    }
    up_->send_data(bytes, end);
    if (up_->unsent_bytes() <= kHighMark) {
      down_.consume(bytes.size());
    } else {
      down_credit_ += bytes.size();
    }
  }
  void on_trailers(http::HeaderList trailers) noexcept override {
    // Trailers of a request never carry identity, and shards use none: the body ends here.
    (void)trailers;
    on_data({}, true);
  }
  void on_drained() noexcept override {
    if (up_credit_ > 0 && up_ != nullptr) {
      up_->consume(up_credit_);
      up_credit_ = 0;
    }
  }
  void on_close(Errc /*cause*/) noexcept override {
    leave();
    if (up_ != nullptr) {
      up_->detach();
      up_ = nullptr;
    }
    if (pending_) {
      pending_->timer.cancel();
      pending_->refusal.reset();
      pending_->held.reset();
      pending_->seat.leave();
    }
  }

 private:
  /// The shard's side.
  struct UpSide final : http::ResponseHandler {
    explicit UpSide(Forward& o) : owner(o) {}
    void on_head(http::ResponseHead head, bool end) noexcept override {
      if (!guarded("head of a shard's answer", [&] { owner.up_head(head, end); })) {
        owner.down_.reset(Errc::kInternal);
      }
    }
    void on_data(std::string_view bytes, bool end) noexcept override { owner.up_data(bytes, end); }
    void on_trailers(http::HeaderList trailers) noexcept override {
      owner.response_ended_ = true;
      owner.down_.send_trailers(trailers);
    }
    void on_drained() noexcept override { owner.up_drained(); }
    void on_close(Errc cause) noexcept override {
      if (!guarded("end of a shard's answer", [&] { owner.up_closed(cause); })) {
        owner.down_.reset(Errc::kInternal);
      }
    }
    Forward& owner;
  };

  void open() {
    if (pending_->attempts > 0 && !pending_->replayable) {  // the client sent more meanwhile
      tell_unreachable();
      refuse(serving::shard_unreachable(watch_), ForwardFault::kLost);
      return;
    }
    shards::ShardClient* client = *client_;
    net::Upstream* upstream = client == nullptr ? nullptr : client->upstream();
    if (upstream == nullptr || !client->admit()) {
      tally_.found_none();
      tell_unreachable();
      refuse(serving::shard_unreachable(watch_), ForwardFault::kFull);
      return;
    }
    if (pending_->attempts == 0 && !take_seat(*client)) {
      return;
    }
    http::RequestHead& head = pending_->head;
    if (pending_->attempts++ == 0) {
      stats().overhead.add(Clock::now() - tally_.begun());  // the loop's time is that of its turn
      client->dress(head.headers);
      tally_.sent(shared_.loop.now());
    }
    const bool has_replay = !pending_->replay.empty();
    pending_->awaits = false;
    head.end_stream = pending_->body_ended && !has_replay;
    if (const std::string& prefix = upstream->params().url.path; prefix != pending_->prefix) {
      head.target.replace(0, pending_->prefix.size(), prefix);
      pending_->prefix = prefix;
    }
    up_ = &upstream->open(class_of(head.method, watch_), head, up_side_);
    if (has_replay && !pending_->replayable) {
      up_->send_data(SharedBytes(pending_->replay), pending_->body_ended);
      give_back(pending_->replay);
    } else if (has_replay ||
               (pending_->body_ended && !pending_->bodiless && pending_->attempts > 1)) {
      up_->send_data(pending_->replay, pending_->body_ended);
    }
  }

  /// True: it has one. Else it goes on, or is refused, when it is its turn (SE-072).
  [[nodiscard]] bool take_seat(const shards::ShardClient& client) {
    if (pending_->seat.runs()) {
      return true;
    }
    serving::FairSeats& seats = shared_.seats_of(client.name());
    if (seats.sit_if_quiet(pending_->seat, serving::level_of(down_.peer()))) {
      return true;
    }
    net::BodyPayer payer;
    const auto who = who_waits(shared_, pending_->head, down_.peer(), payer);
    pending_->waits = pending_->awaits = true;
    pending_->waits_since = shared_.loop.now();
    const bool runs = seats.enter(pending_->seat, who, {.bytes = pending_->head.target.size()},
                                  [this](Expected<void> room) { on_seat(std::move(room)); });
    if (runs) {
      pending_->waits = false;
    }
    return runs;
  }

  void on_seat(Expected<void> room) {
    if (!room) {  // it goes on waiting, as those do that have found a place
      auto later = shared_.refusals.tell(std::move(room).error(), [this](const Error& error) {
        refuse(error, ForwardFault::kFull);
      });
      if (pending_ != nullptr) {
        pending_->refusal = std::move(later);
      }
      return;
    }
    pending_->waits = false;
    const Duration waited = shared_.loop.now() - pending_->waits_since;
    if (const auto steps = waited / serving::kWaitedStep; steps > 0) {
      pending_->head.headers.set(serving::kWaitedHeader,
                                 std::to_string(steps * serving::kWaitedStep.count()));
    }
    down_.consume(std::exchange(pending_->owed, 0));
    const std::size_t unsent = std::exchange(pending_->unsent, 0);
    open();
    if (pending_ && unsent > 0) {
      keep_or_drop(unsent, pending_->body_ended);
    }
  }

  /// Nothing of what is kept may go before it has been sent.
  void keep_for_turn(std::size_t bytes, bool end) {
    pending_->unsent += bytes;
    if (end && pending_->hold != nullptr) {
      pending_->hold->finish();
    }
  }

  /// More of a body of which nothing has been sent is kept now.
  void await(std::size_t bytes, bool end) {
    if (pending_->waits) {
      pending_->owed += bytes;
      keep_for_turn(bytes, end);
    } else if (end || pending_->body_bytes > std::min(kAwaited, shared_.limits.replay_bytes)) {
      down_.consume(bytes);
      open();
      if (pending_ && pending_->waits) {
        keep_for_turn(bytes, end);
      } else if (pending_) {
        keep_or_drop(bytes, end);
      }
    } else if (Expected<void> room = pending_->hold->add(bytes); !room) {
      refuse_body(room.error());
    }
  }

  /// The copy of a body that is on its way stays as long as it may be needed and there is room.
  void keep_or_drop(std::size_t bytes, bool end) {
    if (pending_->replayable && pending_->body_bytes > shared_.limits.replay_bytes) {
      pending_->replayable = false;
    }
    if (pending_->hold == nullptr) {
      return;
    }
    if (end) {
      pending_->hold->finish();
    }
    if (pending_->replayable) {
      pending_->replayable = pending_->hold->keep(bytes) || end;
    } else {
      pending_->hold->pass(bytes);
    }
    if (!pending_->replayable) {
      give_back(pending_->replay);
      pending_->hold->shrink(0);
    }
  }

  // The body's hold.
  [[nodiscard]] net::BodyPayer body_payer() const override {
    return payer_of(shared_, down_.peer(), pending_->head.headers);
  }
  void give_body_credit(std::size_t bytes) noexcept override { down_.consume(bytes); }
  void refuse_body(const Error& error) noexcept override {
    if (pending_->head.version < 2) {
      down_.close_connection_after();
    }
    refuse(error, ForwardFault::kRefused);
  }
  [[nodiscard]] bool body_is_stuck() const noexcept override {
    return down_credit_ > 0 || (pending_ != nullptr && pending_->waits);
  }

  /// False: the body is over the limit and the request has been answered.
  bool keep_for_replay(std::string_view bytes, bool end) {
    pending_->body_bytes += bytes.size();
    pending_->body_ended = end;
    if (pending_->body_bytes > shared_.limits.body_bytes && !upgrade_) {
      down_.consume(bytes.size());
      refuse(serving::body_too_large(shared_.limits.body_bytes), ForwardFault::kRefused);
      return false;
    }
    if (pending_->awaits) {
      pending_->replay.append(bytes);
      return true;
    }
    if (pending_->replayable && pending_->body_bytes <= shared_.limits.replay_bytes) {
      pending_->replay.append(bytes);
    }
    keep_or_drop(bytes.size(), end);
    return true;
  }

  void up_head(const http::ResponseHead& head, bool end) {
    if (shards::ShardClient* client = *client_) {
      client->on_success();
      shards::log_answer(client->name(), pending_->head.method, pending_->head.target, head.status,
                         shared_.loop.now() - pending_->first_attempt);
    }
    if (head.status == 503 && !head.headers.get(serving::kMovingHeader).empty() && hold()) {
      return;
    }
    // A body may still be on its way up: a shard may answer before it is complete, and after 101
    // the request side goes on as a byte pipe.
    answered_ = end && head.status != 101;
    response_ended_ = end;
    tally_.answered(head.status);
    tally_.came(shared_.loop.now());
    if (asks_watch_) {
      target_ = std::string_view(pending_->head.target)
                    .substr(pending_->prefix.size(), serving::WatchList::kMostPath);
    }
    if (watch_ && head.status == 200 && !end) {
      tail_ = std::make_unique<WatchTail>(WatchTail::form_of(head.headers),
                                          WatchTail::allows_bookmarks(pending_->head.target));
      shared_.watches.add(*this);
    } else if (upgrade_ && head.status == 101) {
      tail_ = std::make_unique<WatchTail>(
          web_socket_ ? WatchTail::Form::kWebSocket : WatchTail::Form::kOpaque, false);
      shared_.tunnels.add(*this);
    }
    if (pending_->hold != nullptr && head.status != 401) {
      shared_.bearers.note_accepted(pending_->head.headers, shared_.loop.now());
    }
    pending_->seat.answered(head.status == 429);
    pending_.reset();
    down_.send_head(head.status, head.headers, end);
  }

  /// The shard has done nothing of it. True: it waits, and is sent again.
  bool hold() {
    const TimePoint now = shared_.loop.now();
    if (upgrade_ || !pending_->replayable || !pending_->body_ended) {
      return false;
    }
    if (pending_->held == nullptr) {
      pending_->held = shared_.held.enter(pending_->replay.size(), now);
    } else if (now >= pending_->held->until()) {
      shared_.held.gave_up();
      return false;
    }
    if (pending_->held == nullptr) {
      return false;
    }
    up_->detach();
    up_ = nullptr;
    pending_->seat.leave();
    pending_->attempts = 1;  // as one that is sent for the first time
    pending_->first_attempt = now;
    pending_->timer.start(shared_.held.pause(), [this] { send_again(); });
    return true;
  }

  /// To where the logical cluster is now.
  void send_again() {
    const std::string_view target =
        std::string_view(pending_->head.target).substr(pending_->prefix.size());
    shards::ShardClient* const now = shared_.held.find ? shared_.held.find(target) : nullptr;
    if (now != nullptr) {
      client_ = now->handle();
      source_ = now;
    }
    open();
  }

  void up_data(std::string_view bytes, bool end) {
    if (tail_) {
      if (ending_) {
        const std::size_t rest = tail_->first_boundary(bytes);
        if (rest != std::string_view::npos) {
          tail_->feed(bytes.substr(0, rest));
          pass_down(bytes.substr(0, rest), false);
          end_watch();
          return;
        }
      }
      tail_->feed(bytes);
    }
    pass_down(bytes, end);
  }

  void pass_down(std::string_view bytes, bool end) {
    touch();
    tally_.down(bytes.size());
    if (end && !asks_watch_) {
      tally_.came(shared_.loop.now());
    }
    response_ended_ = end;
    down_.send_data(bytes, end);
    if (up_ == nullptr) {
      return;
    }
    if (down_.unsent_bytes() <= kHighMark) {
      up_->consume(bytes.size());
    } else {
      up_credit_ += bytes.size();
    }
  }

  // The drain's side.
  [[nodiscard]] const void* source() const noexcept override { return source_; }
  [[nodiscard]] std::size_t backlog() const noexcept override { return down_.unsent_bytes(); }
  [[nodiscard]] std::string payer() const override { return serving::payer_of(down_.peer()).name; }
  [[nodiscard]] serving::Level level() const override { return serving::level_of(down_.peer()); }
  [[nodiscard]] bool is_watch() const noexcept override { return asks_watch_; }
  void describe(serving::WatchRow& row) const override {
    row.kind = "forwarded";
    serving::name_client(row, down_.peer());
    serving::name_target(row, target_);
    row.shards.push_back(server_.first);
    row.sent = tally_.down() - std::min<std::uint64_t>(tally_.down(), down_.unsent_bytes());
  }
  void release_connection() noexcept override { down_.close_connection_after(); }
  void end_at_once() noexcept override {
    response_ended_ = answered_ = true;
    if (up_ != nullptr) {
      up_->detach();
      up_ = nullptr;
    }
    down_.reset(Errc::kOverloaded);
  }
  void end_in_order() noexcept override {
    ending_ = true;
    tally_.drained();
    if (!response_ended_ && tail_->at_boundary()) {
      end_watch();
    }
  }

  /// At an event boundary.
  void end_watch() {
    response_ended_ = answered_ = true;
    down_.send_data(tail_->last_words(), true);
    if (up_ != nullptr) {
      up_->detach();
      up_ = nullptr;
    }
  }

  void up_drained() {
    if (down_credit_ > 0) {
      down_.consume(down_credit_);
      down_credit_ = 0;
    }
  }

  void up_closed(Errc cause) {
    up_ = nullptr;
    up_drained();
    if (response_ended_) {
      answered_ = true;
      return;
    }
    shards::ShardClient* client = *client_;
    if (client != nullptr && cause != Errc::kOk && cause != Errc::kCancelled &&
        cause != Errc::kBadRequest) {
      client->on_failure(cause);
    }
    if (pending_) {
      before_head(cause);
      return;
    }
    ++stats().failures;
    tally_.failed(forward_fault_of(cause));
    answered_ = true;
    if (watch_) {  // it ends in order, so that clients resume (E9)
      down_.send_data(std::string_view(), true);
    } else {
      down_.reset(Errc::kReset);
    }
  }

  void before_head(Errc cause) {
    if (cause == Errc::kBadRequest) {  // our own client does not send it (SE-118)
      refuse(serving::not_sendable(), ForwardFault::kRefused);
      return;
    }
    const bool untouched = is_untouched(cause);
    const bool has_shard = *client_ != nullptr;
    const bool elsewhere = has_shard && (*client_)->answers_elsewhere();
    const Duration passed = shared_.loop.now() - pending_->first_attempt;
    if (may_repeat(cause, idempotent_, has_shard, elsewhere, passed) && pending_->replayable &&
        pending_->attempts < kMaxAttempts) {
      ++stats().retries;
      tally_.sent_again(forward_fault_of(cause));
      pending_->timer.start(kRetryPause * pending_->attempts, [this] { open(); });
      return;
    }
    tell_unreachable();
    if (cause == Errc::kTls) {
      refuse(serving::backend_not_secured(), ForwardFault::kTls);
    } else if (untouched || idempotent_ || cause == Errc::kDeadline) {
      refuse(serving::shard_unreachable(watch_), forward_fault_of(cause));
    } else {
      refuse(serving::backend_lost(), forward_fault_of(cause));
    }
  }

  void tell_unreachable() {
    if (pending_->unreachable) {
      std::exchange(pending_->unreachable, nullptr)();
    }
  }

  void refuse(const Error& error, ForwardFault why) {
    ++stats().failures;
    tally_.failed(why);
    tally_.answered(krm::http_status(error));
    answered_ = true;
    if (up_ != nullptr) {
      up_->detach();
      up_ = nullptr;
    }
    serving::send_error(down_, serving::AnswerForm::of(pending_->head), error);
    pending_.reset();
  }

  [[nodiscard]] ForwardStats& stats() noexcept { return shared_.stats; }

  ForwardLoop& shared_;
  http::ResponseStream& down_;
  shards::ShardClient::Handle client_;
  const void* source_;  // where a watch comes from
  TallyByServer::value_type& server_;
  RequestTally tally_;
  UpSide up_side_;
  http::RequestStream* up_ = nullptr;
  std::unique_ptr<Pending> pending_;  // until the response head
  std::unique_ptr<WatchTail> tail_;   // of a running watch
  std::string target_;                // of the same, as far as it is shown
  std::size_t down_credit_ = 0;       // request bytes that the client has not got credit for yet
  std::size_t up_credit_ = 0;         // response bytes that the shard has not got credit for yet
  bool asks_watch_ = false;           // by GET or by a WebSocket
  bool watch_ = false, idempotent_ = false, upgrade_ = false, web_socket_ = false;
  bool answered_ = false;  // nothing of the request is of use any more
  bool response_ended_ = false;
  bool ending_ = false;  // a drain waits for the end of an event
};

}  // namespace

std::unique_ptr<http::RequestHandler> forward(ForwardLoop& shared, http::RequestHead&& head,
                                              http::ResponseStream& stream,
                                              shards::ShardClient& client, bool is_watch,
                                              std::function<void()> unreachable,
                                              std::shared_ptr<AccessNote> note) {
  serving::RequestLimiter::Pass pass;
  if (is_watch || !head.protocol.empty()) {
    if (Expected<void> room = admit_open(shared, pass, head, stream.peer(), is_watch); !room) {
      return shared.refusals.answer(head, stream, std::move(room).error());
    }
  }
  return holding(std::make_unique<Forward>(shared, std::move(head), stream, client, is_watch,
                                           std::move(unreachable), std::move(note)),
                 std::move(pass));
}

std::unique_ptr<http::RequestHandler> forward_whole(ForwardLoop& shared, http::RequestHead&& head,
                                                    http::ResponseStream& stream,
                                                    shards::ShardClient& client, std::string body) {
  head.end_stream = body.empty();
  return std::make_unique<Forward>(shared, std::move(head), stream, client, false, nullptr, nullptr,
                                   std::move(body));
}

}  // namespace kintsugi::proxy
