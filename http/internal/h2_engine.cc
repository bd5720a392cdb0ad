#include "http/internal/h2_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/prefetch.h"
#include "http/internal/h2_callbacks.h"
#include "http/wire.h"

namespace kintsugi::http {
namespace {

constexpr std::size_t kMaxQueuedControl = 1'000;
constexpr std::size_t kMaxLate = 64 * 1024;
/// Bytes of a client after which streams that have ended are destroyed: who opens and resets many
/// of them at once holds the memory of few.
constexpr std::size_t kSlice = 4 * 1024;
constexpr Duration kLinger = seconds(5);
constexpr std::size_t kAhead = 4;  ///< streams

std::uint32_t code_of(Errc cause) noexcept {
  switch (cause) {
    case Errc::kCancelled:
      return NGHTTP2_CANCEL;
    case Errc::kNotProcessed:
      return NGHTTP2_REFUSED_STREAM;
    default:
      return NGHTTP2_INTERNAL_ERROR;
  }
}

/// Names of one request: in the table of HPACK each pushes out what could be used again, and is
/// looked at in vain by all that follow.
bool is_of_one_request(std::string_view name) noexcept {
  switch (name.size()) {
    case 8:
      return name == "audit-id";
    case 11:
      return name == "traceparent";
    case 12:
      return name == "x-request-id";
    default:
      return false;
  }
}

}  // namespace

void NameValues::add(std::string_view name, std::string_view value) noexcept {
  add(name, value, is_of_one_request(name) ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE);
}

void NameValues::add(std::string_view name, std::string_view value, std::uint8_t flags) noexcept {
  // nghttp2 copies names and values and writes to neither.
  const nghttp2_nv field = {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                            reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
                            name.size(), value.size(), flags};
  if (size_ < few_.size()) {
    few_[size_] = field;
  } else {
    if (more_.empty()) {
      more_.assign(few_.begin(), few_.end());
    }
    more_.push_back(field);
  }
  ++size_;
}

void NameValues::add_fields(const HeaderList& fields) noexcept {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const HeaderView field = fields[i];
    if (field.name.empty() || field.name.front() == ':' || field.name == "host") {
      continue;
    }
    if (is_hop_by_hop(field.name) && !(field.name == "te" && field.value == "trailers")) {
      continue;
    }
    add(field.name, field.value);
  }
}

void H2Stream::queue_trailers(const HeaderList& fields) noexcept {
  if (closed || ended) {
    return;
  }
  trailers = std::make_unique<HeaderList>(fields);
  queue_body(std::string_view(), true);
}

void H2Stream::abort(Errc why) noexcept {
  if (closed) {
    return;
  }
  nghttp2_session* session = engine.native();
  if (why == Errc::kOk && session != nullptr && engine.is_server() && head_done && !local_ended) {
    end_without_rest(session);
    return;
  }
  if (session != nullptr) {
    (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, code_of(why));
    (void)nghttp2_session_set_stream_user_data(session, id, nullptr);
  }
  engine.finish(*this, why);
  engine.changed();
}

void H2Stream::end_without_rest(nghttp2_session* session) noexcept {
  queue.clear();
  trailers.reset();
  ended = true;
  above_mark = false;
  // nghttp2 sends no DATA, not even empty ones, without a window; trailers need none.
  const bool window = nghttp2_session_get_stream_remote_window_size(session, id) > 0 &&
                      nghttp2_session_get_remote_window_size(session) > 0;
  if (!window) {
    (void)nghttp2_submit_headers(session, NGHTTP2_FLAG_END_STREAM, id, nullptr, nullptr, 0,
                                 nullptr);
  } else if (!offered) {
    engine.offer(*this);
  }
  engine.changed();
}

void H2Stream::credit(std::size_t bytes) noexcept {
  const std::size_t part = std::min(bytes, unconsumed);
  unconsumed -= part;
  nghttp2_session* session = engine.native();
  if (part == 0 || closed || session == nullptr) {
    return;
  }
  (void)nghttp2_session_consume_stream(session, id, part);
  engine.changed();
}

void H2Engine::start(bool server) noexcept {
  server_ = server;
  session_ = make_nghttp2_session(*this, limits_, server);
  if (server) {
    constexpr std::size_t kPreface = 24;
    order_ = std::make_unique<StreamOrder>(kPreface);
    pending_ = take_greeting(session_, limits_, greeting_);
  }
}

H2Engine::~H2Engine() {
  nghttp2_session_del(session_);
  while (streams_ != nullptr) {
    delete std::exchange(streams_, streams_->next);
  }
}

void H2Engine::link(H2Stream& stream) noexcept {
  stream.next = streams_;
  if (streams_ != nullptr) {
    streams_->previous = &stream;
  }
  streams_ = &stream;
  ++open_;
}

void H2Engine::changed() noexcept {
  if (!receiving_ && !transport_closed_) {
    host_.output_ready();
  }
}

void H2Engine::make_due(H2Stream& stream) noexcept {
  if (stream.due) {
    return;
  }
  stream.due = true;
  stream.next_due = nullptr;
  (due_tail_ == nullptr ? due_head_ : due_tail_->next_due) = &stream;
  due_tail_ = &stream;
}

void H2Engine::offer(H2Stream& stream) noexcept {
  stream.offered = true;
  offered_.push_back(stream.id);
}

// Several at a time, so that the misses of looking them up overlap as well.
void H2Engine::approach(std::size_t first, std::size_t count) const noexcept {
  const std::size_t end = std::min(first + count, offered_.size());
  for (std::size_t i = first; i < end; ++i) {
    fetch_ahead(nghttp2_session_find_stream(session_, offered_[i]), 4);
  }
}

void H2Engine::submit_next() noexcept {
  const nghttp2_data_provider provider = body_provider();
  // One by one, so that nghttp2 has little to sort; all of them beside a stream that has much to
  // send, so that they do not wait for it.
  const std::size_t end =
      std::exchange(crowded_, false) ? offered_.size() : std::min(next_offer_ + 1, offered_.size());
  for (; next_offer_ < end; ++next_offer_) {
    if (next_offer_ == 0 && offered_.size() > 1) {
      approach(0, 2 * kAhead);
    } else if (next_offer_ % kAhead == 0) {
      approach(next_offer_ + kAhead, kAhead);
    }
    // Fails for streams that are gone.
    (void)nghttp2_submit_data(session_, NGHTTP2_FLAG_END_STREAM, offered_[next_offer_], &provider);
  }
  if (next_offer_ == offered_.size()) {
    offered_.clear();
    next_offer_ = 0;
  }
}

void H2Engine::finish(H2Stream& stream, Errc cause) noexcept {
  if (stream.closed) {
    return;
  }
  stream.closed = true;
  stream.cause = cause;
  if (cause == Errc::kProtocol) {
    on_broken_message();
  }
  stream.queue.clear();
  make_due(stream);
  if (--open_ == 0) {
    on_last_finished();
  }
}

void H2Engine::run_due() noexcept {
  if (running_) {
    return;
  }
  running_ = true;
  while (due_head_ != nullptr) {
    H2Stream& stream = *due_head_;
    due_head_ = stream.next_due;
    if (due_head_ == nullptr) {
      due_tail_ = nullptr;
    }
    stream.due = false;
    if (!stream.closed) {
      const bool drained = stream.drained_due;
      stream.drained_due = false;
      if (drained && stream.handler != nullptr) {
        stream.handler->on_drained();
      }
      continue;
    }
    if (StreamHandler* handler = std::exchange(stream.handler, nullptr)) {
      handler->on_close(stream.cause);
    }
    (stream.previous == nullptr ? streams_ : stream.previous->next) = stream.next;
    if (stream.next != nullptr) {
      stream.next->previous = stream.previous;
    }
    delete &stream;
  }
  running_ = false;
}

void H2Engine::deliver_end(H2Stream& stream) noexcept {
  stream.remote_ended = true;
  if (stream.handler != nullptr && !stream.closed) {
    stream.handler->on_data({}, true);
  }
}

void H2Engine::fail_connection(std::uint32_t code) noexcept {
  fatal_ = true;
  // GOAWAY by hand: after a fatal error nghttp2 must not be asked for anything.
  const std::uint32_t last =
      server_ ? static_cast<std::uint32_t>(nghttp2_session_get_last_proc_stream_id(session_)) : 0;
  farewell_.assign({0, 0, 8, NGHTTP2_GOAWAY, 0, 0, 0, 0, 0});
  for (const std::uint32_t word : {last, code}) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      farewell_ += static_cast<char>((word >> shift) & 0xff);
    }
  }
}

Expected<void> H2Engine::receive(std::string_view bytes) noexcept {
  if (!alive()) {
    return fail(transport_closed_ ? Errc::kClosed : Errc::kProtocol);
  }
  if (entered_) {
    return fail(Errc::kInternal, "bytes are fed from a callback");
  }
  receiving_ = true;
  while (!bytes.empty() && alive()) {
    const std::string_view slice = bytes.substr(0, server_ ? kSlice : bytes.size());
    bytes.remove_prefix(slice.size());
    if (Expected<void> taken = receive_slice(slice); !taken) {
      receiving_ = false;
      run_due();
      return taken;
    }
    if (requests_wait_) {
      serve_waiting();
    }
    run_due();
  }
  receiving_ = false;
  return {};
}

Expected<void> H2Engine::receive_slice(std::string_view bytes) noexcept {
  if (!server_) {
    return hand_over(bytes);
  }
  while (!bytes.empty()) {
    const std::size_t part = order_->scan(bytes);
    for (std::uint32_t begun = order_->take_begun(); warned_ && begun > 0; --begun) {
      watch_.glitch(Abuse::kRefused);  // nghttp2 says nothing of what comes after a GOAWAY
    }
    for (std::uint32_t unknown = order_->take_unknown(); unknown > 0; --unknown) {
      watch_.take(ProtocolLimits::Kind::kUnknown);
    }
    if (part > 0) {
      if (Expected<void> taken = hand_over(bytes.substr(0, part)); !taken) {
        return taken;
      }
    }
    bytes.remove_prefix(part);
    if (order_->pending()) {
      if (Expected<void> judged = judge_frame(); !judged) {
        return judged;
      }
    }
  }
  return {};
}

Expected<void> H2Engine::judge_frame() noexcept {
  using Fault = StreamOrder::Fault;
  const StreamOrder::Look look = order_->look();
  const bool open = nghttp2_session_find_stream(session_, look.stream) != nullptr;
  const Fault fault = order_->judge(open);
  switch (fault) {
    case Fault::kNone:
      break;
    case Fault::kLate:
      if (look.type == NGHTTP2_HEADERS) {
        watch_.take(ProtocolLimits::Kind::kRefused);
      } else if (look.type == NGHTTP2_DATA && look.length > 0) {
        watch_.on_data(look.length, 0);
      } else if (look.type == NGHTTP2_DATA && (look.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        watch_.take(ProtocolLimits::Kind::kEmptyData);
      }
      break;
    case Fault::kClosedStream:
    case Fault::kStream:
      watch_.glitch(Abuse::kMadeReset);
      (void)nghttp2_submit_rst_stream(
          session_, NGHTTP2_FLAG_NONE, look.stream,
          fault == Fault::kStream ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED);
      break;
    case Fault::kClosed:
    case Fault::kConnection:
      watch_.count(Abuse::kMadeReset);
      fail_connection(fault == Fault::kClosed ? NGHTTP2_STREAM_CLOSED : NGHTTP2_PROTOCOL_ERROR);
      return fail(Errc::kProtocol, "a frame on a stream that is over");
  }
  return {};
}

Expected<void> H2Engine::hand_over(std::string_view bytes) noexcept {
  entered_ = true;
  const auto result = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  entered_ = false;
  const bool unread = nghttp2_session_get_outbound_queue_size(session_) >
                      kMaxQueuedControl + 2 * std::size_t{limits_.max_streams};
  if (!server_) {
    count_fed(bytes.size());
  }
  const bool abused = is_abused() || unread;
  if (unread || result == NGHTTP2_ERR_FLOODED) {
    watch_.count(Abuse::kUnread);
  } else if (result == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) {
    watch_.count(Abuse::kContinuation);
  }
  if (result < 0 || abused) {
    const bool calm =
        abused || result == NGHTTP2_ERR_FLOODED || result == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS;
    fail_connection(calm ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
    return fail(Errc::kProtocol, abused ? "too much abuse on one connection"
                                        : nghttp2_strerror(static_cast<int>(result)));
  }
  if (server_ && !warned_ && watch_.should_warn()) {
    warned_ = true;
    (void)nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(session_),
                                NGHTTP2_ENHANCE_YOUR_CALM, nullptr, 0);
  }
  return {};
}

std::size_t H2Engine::copy_pending(char* out, std::size_t room) noexcept {
  const std::size_t part = std::min(room, pending_.size());
  std::memcpy(out, pending_.data(), part);
  pending_.remove_prefix(part);
  return part;
}

std::size_t H2Engine::fill(std::span<char> out) noexcept {
  if (transport_closed_ || out.empty() || entered_) {
    return 0;
  }
  out_ = out.data();
  room_ = out.size();
  filled_ = 0;
  const auto take = [this](std::size_t bytes) {
    out_ += bytes;
    room_ -= bytes;
    filled_ += bytes;
  };
  if (!pending_.empty()) {
    take(copy_pending(out_, room_));
  }
  while (room_ > 0 && !fatal_) {
    submit_next();
    paused_ = false;
    const std::uint8_t* data = nullptr;
    entered_ = true;
    const auto length = nghttp2_session_mem_send(session_, &data);
    entered_ = false;
    if (length < 0) {
      fail_connection(NGHTTP2_INTERNAL_ERROR);
    }
    if (length == 0 && !paused_ && !offered_.empty()) {
      continue;
    }
    if (length <= 0) {
      break;
    }
    pending_ = {reinterpret_cast<const char*>(data), static_cast<std::size_t>(length)};
    take(copy_pending(out_, room_));
  }
  if (fatal_ && pending_.empty() && room_ > 0) {
    const std::size_t part = std::min(room_, farewell_.size());
    std::memcpy(out_, farewell_.data(), part);
    farewell_.erase(0, part);
    take(part);
  }
  return filled_;
}

bool H2Engine::has_output() const noexcept {
  if (transport_closed_) {
    return false;
  }
  return !pending_.empty() || !farewell_.empty() ||
         (!fatal_ && (!offered_.empty() || nghttp2_session_want_write(session_) != 0));
}

bool H2Engine::is_finished() const noexcept {
  if (transport_closed_) {
    return true;
  }
  return !has_output() && (fatal_ || nghttp2_session_want_read(session_) == 0);
}

void H2Engine::close_all(Errc cause) noexcept {
  if (transport_closed_) {
    return;
  }
  transport_closed_ = true;
  pending_ = {};
  farewell_.clear();
  for (H2Stream* stream = streams_; stream != nullptr; stream = stream->next) {
    const bool unsent = !server_ && !stream->head_sent;
    finish(*stream, unsent ? Errc::kNotProcessed : cause);
  }
  run_due();
}

std::size_t H2Engine::abort_stalled(TimePoint now, Duration limit) noexcept {
  std::size_t count = 0;
  for (H2Stream* stream = streams_; stream != nullptr; stream = stream->next) {
    if (stream->lingers && !stream->closed) {
      if (stream->stuck_since == TimePoint{}) {
        stream->stuck_since = now;
      } else if (now - stream->stuck_since >= kLinger) {
        stop_request(*stream);
        changed();
      }
      continue;
    }
    const bool waits = !stream->closed && !stream->queue.empty();
    if (!waits || (!stream->ended && !stream->above_mark)) {
      stream->stuck_since = TimePoint{};
    } else if (stream->moved || stream->stuck_since == TimePoint{}) {
      stream->moved = false;
      stream->stuck_since = now;
    } else if (now - stream->stuck_since >= limit) {
      stream->abort(Errc::kDeadline);
      ++count;
    }
  }
  return count;
}

void H2Engine::take_late(H2Stream& stream, std::size_t bytes) noexcept {
  stream.late += static_cast<std::uint32_t>(bytes);
  if (stream.late > kMaxLate) {
    stop_request(stream);
  }
}

// The answer is complete, so the rest of the request is of no use (RFC 9113, section 8.1).
void H2Engine::stop_request(H2Stream& stream) noexcept {
  if (stream.stopped || !alive()) {
    return;
  }
  stream.stopped = true;
  (void)nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_NO_ERROR);
}

void H2Engine::count_data(const nghttp2_data& frame, const H2Stream* stream) noexcept {
  const std::size_t padding = std::min(frame.padlen, frame.hd.length);
  const std::size_t payload = frame.hd.length - padding;
  const bool last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  // Tunnels carry single keystrokes.
  if ((stream == nullptr || !stream->tunnel) && !(last && payload == 0)) {
    watch_.on_data(static_cast<std::uint32_t>(payload), static_cast<std::uint32_t>(padding));
  }
}

void H2Engine::count_fed(std::size_t bytes) noexcept {
  constexpr std::uint64_t kFrame = 16'384 + 9;  // one may be on its way
  fed_ += bytes;
  while (fed_ > explained_ + kFrame) {
    explained_ += kFrame;
    watch_.take(ProtocolLimits::Kind::kUnknown);
  }
}

void H2Engine::count_frame(const nghttp2_frame_hd& header) noexcept {
  using Kind = ProtocolLimits::Kind;
  switch (header.type) {
    case NGHTTP2_PING:
      if ((header.flags & NGHTTP2_FLAG_ACK) == 0) {
        watch_.take(Kind::kPing);
      }
      break;
    case NGHTTP2_SETTINGS:
      if ((header.flags & NGHTTP2_FLAG_ACK) == 0) {
        watch_.take(Kind::kSettings);
      }
      break;
    case NGHTTP2_PRIORITY:
    case NGHTTP2_PRIORITY_UPDATE:
      watch_.take(Kind::kPriority);
      break;
    case NGHTTP2_DATA:
      if (header.length == 0 && (header.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        watch_.take(Kind::kEmptyData);
      }
      break;
    case NGHTTP2_HEADERS:
      window_updates_due_ = std::min(window_updates_due_ + 2, 10'000U);
      break;
    case NGHTTP2_WINDOW_UPDATE:
      if (window_updates_due_ == 0) {
        watch_.take(Kind::kIdleWindowUpdate);
      } else {
        --window_updates_due_;
      }
      break;
    default:
      break;
  }
}

}  // namespace kintsugi::http
