#include "apiserver/internal/watcher.h"

#include <algorithm>
#include <random>
#include <utility>

#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/versions.h"
#include "auth/payer.h"
#include "base/guard.h"
#include "krm/path_prefixes.h"
#include "krm/status.h"
#include "serving/shown_user.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kMaxUnsent = 1024 * 1024;    ///< a live watch further behind reads history
constexpr std::size_t kReplayUnsent = 256 * 1024;  ///< state and history wait above this
constexpr std::size_t kStateBudget = 1'024;        ///< objects of the present state per turn
constexpr std::size_t kHistoryBudget = 512;        ///< events of the past per turn
constexpr seconds kLastBookmark{2};                ///< before the deadline
constexpr seconds kSocketLinger{2};                ///< for the client's close, after ours
constexpr std::size_t kProtobufPrefix = 4;         ///< length of a frame of a plain stream

/// 0.9 to 1.1 times.
Duration jitter(Duration around) {
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<std::int64_t> percent(90, 110);
  return around / 100 * percent(random);
}

}  // namespace

Watcher::Watcher(Exchange& exchange, Server& server, Params params)
    : exchange_(exchange),
      server_(server),
      encoding_(std::move(params.encoding)),
      selection_(std::move(params.selection)),
      range_(std::move(params.range)),
      cluster_(std::move(params.cluster)),
      rights_(std::move(params.rights)),
      revision_(params.after),
      begun_(server.loop().now()),
      deadline_(begun_ + params.lifetime),
      bookmark_interval_(std::min(params.bookmark_interval, server.params().bookmark_interval)),
      next_bookmark_(server.loop().now() + jitter(bookmark_interval_)),
      timer_(server.loop()),
      socket_(params.web_socket ? std::make_unique<http::WebSocketReader>() : nullptr),
      phase_(params.from_state ? Phase::kState : Phase::kHistory),
      one_key_(params.one_key),
      bookmarks_(params.bookmarks),
      initial_end_(params.initial_end) {
  if (encoding_->kind()->def->webhook != nullptr) {
    converted_ = std::make_unique<ConvertedEvents>(
        server_.loop(), server_.conversions(), cluster_, encoding_,
        [this](const SharedBytes& bytes, bool is_event) { emit(bytes, is_event); },
        [this] {
          if (phase_ == Phase::kState || phase_ == Phase::kHistory) {
            yield();  // the replay may have waited for room
          }
        },
        [this](const Error& error) { fail_with(error); });
  }
  server_.watch_started(*this);
}

Watcher::~Watcher() {
  if (group_ != nullptr) {
    server_.hub().remove(*group_, *this);
  }
  server_.watch_ended(*this);
}

void Watcher::start() noexcept {
  if (phase_ == Phase::kState) {
    revision_ = server_.store().current();
    next_ = range_;
  }
  arm_timer();
  go_on();
}

void Watcher::on_drained() noexcept { go_on(); }

std::size_t Watcher::unsent_bytes() const noexcept {
  return exchange_.stream().unsent_bytes() +
         (converted_ == nullptr ? 0 : converted_->waiting_bytes());
}

std::string Watcher::payer() const {
  return auth::payer_of(*rights_->user, exchange_.stream().peer().address,
                        server_.tenants().tree_of)
      .name;
}

void Watcher::describe(serving::WatchRow& row) const {
  row.kind = "served";
  row.user = serving::shown_user(*rights_->user);
  row.address = exchange_.stream().peer().address;
  row.cluster = cluster_;
  row.path = krm::cluster_root(cluster_) +
             (def().group.empty() ? "/api/" : "/apis/" + def().group + "/") + version() + "/" +
             def().plural;
  row.sent = sent_ - std::min<std::uint64_t>(sent_, exchange_.stream().unsent_bytes());
}

void Watcher::go_on() noexcept {
  while (phase_ == Phase::kState || phase_ == Phase::kHistory) {
    if (unsent_bytes() > kReplayUnsent) {
      return;  // on_drained calls again
    }
    const bool more = phase_ == Phase::kState ? read_state() : read_history();
    if (more && unsent_bytes() <= kReplayUnsent) {
      yield();
      return;
    }
  }
}

/// True when another turn has to go on with the same phase.
bool Watcher::read_state() {
  std::size_t budget = kStateBudget;
  bool stopped = false;
  const auto visit = [&](const store::EntryView& entry) {
    if (one_key_ && entry.key != range_) {
      return false;  // it would have come first
    }
    if (budget == 0 || unsent_bytes() > kReplayUnsent) {
      next_ = entry.key;
      stopped = true;
      return false;
    }
    --budget;
    Candidate candidate(entry.key, entry.value, entry.modified);
    if (selection_->matches(candidate) &&
        !convert(WatchType::kAdded, entry.value, entry.modified)) {
      send(encode_event(*encoding_, WatchType::kAdded, entry.value, entry.modified, !columns_sent_),
           true);
    }
    return true;
  };
  const Expected<store::Revision> read = server_.store().range({range_, next_, revision_}, visit);
  if (!read) {
    fail_with(read.error().code() == Errc::kCompacted
                  ? version_too_old(revision_, server_.store().compacted())
                  : read.error().clone());
    return false;
  }
  if (stopped) {
    return true;
  }
  next_ = std::string();
  if (initial_end_) {
    send_bookmark(revision_, true);
  }
  phase_ = Phase::kHistory;
  return false;
}

bool Watcher::read_history() {
  // Also where nothing is to be read: what comes next need not follow from there.
  const bool is_there = revision_ >= server_.hub().applied();
  Expected<store::Store::Changes> changes =
      server_.store().changes(range_, revision_, is_there ? 0 : kHistoryBudget);
  if (is_there && (changes || changes.error().code() == Errc::kFutureRevision)) {
    go_live();
    return false;
  }
  if (!changes) {
    const bool gone = changes.error().code() == Errc::kCompacted;
    fail_with(gone ? version_too_old(revision_, server_.store().compacted())
                   : changes.error().clone());
    return false;
  }
  store::Revision sent = revision_;
  for (const store::Event& event : changes->events) {
    if (event.revision > sent) {  // events of one revision stay together
      if (unsent_bytes() > kReplayUnsent) {
        revision_ = sent;
        return true;
      }
      sent = event.revision;
    }
    LiveEvent live(event);
    const std::optional<WatchType> type =
        one_key_ && event.key != range_ ? std::nullopt : live.seen_as(*selection_);
    if (type && !convert(*type, live.value(*type), live.revision())) {
      send(live.bytes(*encoding_, *type, !columns_sent_), true);
    }
  }
  revision_ = changes->complete_to;
  if (revision_ >= server_.hub().applied()) {
    go_live();
    return false;
  }
  return true;
}

void Watcher::go_live() {
  phase_ = Phase::kLive;
  behind_until_ = TimePoint::max();
  alive_.reset();
  group_ = &server_.hub().add(range_, *this);
}

void Watcher::yield() {
  if (alive_ == nullptr) {
    alive_ = std::make_shared<char>();
  }
  server_.loop().post([this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) {
      go_on();
    }
  });
}

void Watcher::deliver(LiveEvent& event) noexcept {
  if (event.revision() <= revision_ || phase_ != Phase::kLive) {
    return;
  }
  if (event.revision() > seen_ && unsent_bytes() > kMaxUnsent) {
    fall_behind();
    return;
  }
  seen_ = event.revision();
  if (const std::optional<WatchType> type = event.seen_as(*selection_)) {
    if (event.is_undated()) {  // there is no resourceVersion for it that others could go on from
      fail_with(version_too_old(event.revision() - 1, event.revision()));
    } else if (!convert(*type, event.value(*type), event.revision())) {
      send(event.bytes(*encoding_, *type, !columns_sent_), true);
    }
  }
}

/// The reader is slow: what it has not seen stays in the store until it has taken what waits here,
/// or until it has been slow for too long.
void Watcher::fall_behind() noexcept {
  revision_ = std::max(revision_, seen_);
  phase_ = Phase::kHistory;
  server_.hub().remove(*std::exchange(group_, nullptr), *this);
  behind_until_ = server_.loop().now() + server_.params().watch_lag;
  on_timer();
}

void Watcher::send(const SharedBytes& bytes, bool is_event) noexcept {
  if (bytes.empty()) {
    return;
  }
  columns_sent_ = true;
  if (converted_ == nullptr) {
    emit(bytes, is_event);
  } else {
    converted_->push(bytes, is_event);
  }
}

void Watcher::emit(const SharedBytes& bytes, bool is_event) noexcept {
  if (phase_ == Phase::kEnded) {
    return;
  }
  put(bytes);
  if (is_event) {
    server_.hub().count_event();
  }
}

bool Watcher::convert(WatchType type, std::string_view value, store::Revision revision) {
  const ServedKind& kind = *encoding_->kind();
  if (converted_ == nullptr || !kind.needs_webhook(value)) {
    return false;
  }
  Expected<krm::Json> object = kind.decode(value, revision);
  if (!object) {
    return true;
  }
  converted_->convert(type, std::move(*object), !columns_sent_);
  columns_sent_ = true;
  return true;
}

void Watcher::send_bookmark(store::Revision revision, bool initial_end) noexcept {
  send(encode_bookmark(*encoding_, revision, initial_end, !columns_sent_), false);
}

void Watcher::fail_with(const Error& error) noexcept {
  if (phase_ != Phase::kEnded) {
    put(encode_error_event(*encoding_, error));
  }
  end();
}

void Watcher::end_in_order() noexcept {
  const bool waits = converted_ != nullptr && !converted_->is_empty();
  if (phase_ == Phase::kLive && bookmarks_ && !waits && server_.hub().applied() >= revision_) {
    send_bookmark(server_.hub().applied(), false);
  }
  end();
}

void Watcher::put(const SharedBytes& bytes) noexcept {
  if (bytes.empty()) {
    return;
  }
  if (socket_ == nullptr) {
    sent_ += bytes.size();
    exchange_.stream().send_data(bytes, false);
  } else if (encoding_->form().format == Format::kProtobuf) {
    put_frame(http::web_socket_frame(http::WebSocketOpcode::kBinary,
                                     bytes.view().substr(kProtobufPrefix)));
  } else {
    put_frame(http::web_socket_frame(http::WebSocketOpcode::kText,
                                     bytes.view().substr(0, bytes.size() - 1)));  // the newline
  }
}

void Watcher::put_frame(const std::string& frame) noexcept {
  sent_ += frame.size();
  exchange_.stream().send_data(frame, false);
}

void Watcher::on_data(std::string_view bytes, bool end) noexcept {
  if (socket_ == nullptr || phase_ == Phase::kEnded) {
    return;
  }
  bool closed = end;
  std::uint16_t fault = http::kWebSocketProtocolError;
  guarded("frames of a watch's client", [&] {
    fault = socket_->feed(
        bytes, server_.loop().now(), [&](http::WebSocketOpcode opcode, std::string_view payload) {
          if (opcode == http::WebSocketOpcode::kPing) {
            put_frame(http::web_socket_frame(http::WebSocketOpcode::kPong, payload));
          } else if (opcode == http::WebSocketOpcode::kClose) {
            put_frame(http::web_socket_close_answer(payload));
            closed = true;
          }
        });
  });
  if (closed || fault != 0) {
    end_with(fault);
  }
}

void Watcher::end_with(std::uint16_t close_code) noexcept {
  if (phase_ == Phase::kEnded) {
    return;
  }
  if (socket_ != nullptr && close_code != 0) {
    put_frame(http::web_socket_close(close_code));
  }
  phase_ = Phase::kEnded;
  timer_.cancel();
  if (group_ != nullptr) {
    server_.hub().remove(*std::exchange(group_, nullptr), *this);
  }
  exchange_.stream().send_data(std::string_view(), true);
  if (socket_ != nullptr) {
    linger();
  }
}

void Watcher::end_at_once() noexcept {
  if (phase_ == Phase::kEnded) {
    return;
  }
  phase_ = Phase::kEnded;
  timer_.cancel();
  if (group_ != nullptr) {
    server_.hub().remove(*std::exchange(group_, nullptr), *this);
  }
  exchange_.stream().reset(Errc::kOverloaded);
}

/// A client that never answers a close must not hold its connection for ever.
void Watcher::linger() {
  timer_.start(kSocketLinger, [this] {
    if (exchange_.stream().unsent_bytes() > 0) {
      linger();
    } else {
      exchange_.stream().reset(Errc::kDeadline);
    }
  });
}

/// A store that others write, too, may not know for a while what they have written.
bool Watcher::is_news() const {
  if (!server_.store().is_shared()) {
    return true;
  }
  const Expected<void> health = server_.store().health();
  return health || health.error().code() != Errc::kUnavailable;
}

void Watcher::arm_timer() {
  const TimePoint now = server_.loop().now();
  TimePoint next = std::min(deadline_, behind_until_);
  if (bookmarks_) {
    next = std::min(next, next_bookmark_);
    if (now + kLastBookmark < deadline_) {
      next = std::min(next, deadline_ - kLastBookmark);
    }
  }
  timer_.start(std::max(Duration(next - now), Duration(milliseconds(1))), [this] { on_timer(); });
}

void Watcher::on_timer() {
  const TimePoint now = server_.loop().now();
  if (now >= std::min(deadline_, behind_until_)) {
    end();
    return;
  }
  const bool due = now >= next_bookmark_ || now + kLastBookmark >= deadline_;
  if (due && phase_ == Phase::kLive && server_.hub().applied() >= revision_ && is_news()) {
    send_bookmark(server_.hub().applied(), false);
  }
  if (now >= next_bookmark_) {
    next_bookmark_ = now + jitter(bookmark_interval_);
  }
  arm_timer();
}

}  // namespace kintsugi::apiserver::internal
