#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "http/handler.h"
#include "http/internal/head_limits.h"
#include "http/internal/protocol_limits.h"
#include "http/internal/send_queue.h"
#include "http/internal/stream_order.h"
#include "http/session.h"

namespace kintsugi::http {

class H2Engine;

/// One exchange on an HTTP/2 connection: what both roles have in common. Owned by the engine's
/// list; destroyed in H2Engine::settle after on_close.
class H2Stream {
 public:
  explicit H2Stream(H2Engine& owner) noexcept : engine(owner) {}
  H2Stream(const H2Stream&) = delete;
  H2Stream& operator=(const H2Stream&) = delete;
  virtual ~H2Stream() = default;

  template <class Bytes>
  void queue_body(Bytes bytes, bool end) noexcept;
  void queue_trailers(const HeaderList& fields) noexcept;
  void abort(Errc cause) noexcept;
  void end_without_rest(nghttp2_session* session) noexcept;
  void credit(std::size_t bytes) noexcept;

  // What an event of a watch touches comes first: two cache lines for each of many streams.
  H2Engine& engine;
  SendQueue queue;
  std::int32_t id = 0;
  bool head_done : 1 = false;  // server: our head is submitted; client: the final head was received
  bool head_sent : 1 = false;  // client: HEADERS left the session
  bool ended : 1 = false;      // our side got its `end`
  bool local_ended : 1 = false;   // END_STREAM left the session
  bool remote_ended : 1 = false;  // END_STREAM was received
  bool offered : 1 = true;        // nghttp2 will ask for body bytes: first after the head
  bool above_mark : 1 = false;    // more than 64 KiB were queued
  bool drained_due : 1 = false;
  bool closed : 1 = false;
  bool due : 1 = false;         // in the engine's list of callbacks to run
  bool tunnel : 1 = false;      // CONNECT: our end does not end the other direction
  bool no_body : 1 = false;     // answer to HEAD
  bool peer_reset : 1 = false;  // RST_STREAM was received
  bool invalid : 1 = false;     // nghttp2 found the peer's message malformed
  bool moved : 1 = false;       // body bytes left since reset_stalled() looked
  bool lingers : 1 = false;     // our end left first; a small rest of the request is awaited
  bool stopped : 1 = false;     // lingered enough: RST_STREAM is on its way
  std::uint8_t hints = 0;       // client: 1xx heads so far
  Errc cause = Errc::kOk;
  std::uint32_t late = 0;            // request bytes that came after our end
  StreamHandler* handler = nullptr;  // null: nobody listens (431, detached)
  H2Stream* previous = nullptr;
  H2Stream* next = nullptr;
  H2Stream* next_due = nullptr;
  std::unique_ptr<HeaderList> trailers;
  std::size_t unconsumed = 0;
  TimePoint stuck_since{};  // server: bytes wait and none has left, or since when it lingers; zero:
                            // not so
};

/// Adds the shared body of Stream's functions to one of the two public stream interfaces.
template <class Interface>
class H2StreamOf : public Interface, public H2Stream {
 public:
  using H2Stream::H2Stream;
  void send_data(std::string_view bytes, bool end) noexcept final { queue_body(bytes, end); }
  void send_data(SharedBytes bytes, bool end) noexcept final { queue_body(std::move(bytes), end); }
  void send_trailers(const HeaderList& fields) noexcept final { queue_trailers(fields); }
  void reset(Errc why) noexcept final { abort(why); }
  void consume(std::size_t bytes) noexcept final { credit(bytes); }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept final { return queue.size(); }
};

/// Field list for nghttp2_submit_*, on the stack for usual sizes. Views only.
class NameValues {
 public:
  void add(std::string_view name, std::string_view value) noexcept;
  /// @param name  in lower case, and there for ever: nghttp2 makes no copy of it
  void add_literal(std::string_view name, std::string_view value) noexcept {
    add(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME);
  }
  /// Everything but pseudo, Host and hop-by-hop fields; `te: trailers` stays.
  void add_fields(const HeaderList& fields) noexcept;
  [[nodiscard]] const nghttp2_nv* data() const noexcept {
    return more_.empty() ? few_.data() : more_.data();
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  void add(std::string_view name, std::string_view value, std::uint8_t flags) noexcept;

  std::array<nghttp2_nv, 40> few_;
  std::vector<nghttp2_nv> more_;
  std::size_t size_ = 0;
};

/// nghttp2 session, its callbacks and the list of streams. The roles derive from it.
/// Rule: nghttp2's mem_recv and mem_send run only from feed() and produce(), which a handler that
/// is called meanwhile cannot enter (PERF-222); handlers run only from feed(), settle() and
/// transport_closed().
class H2Engine {
 public:
  H2Engine(SessionHost& host, const SessionLimits& limits) noexcept
      : limits_(limits), host_(host), watch_(limits.max_glitches) {}
  H2Engine(const H2Engine&) = delete;
  H2Engine& operator=(const H2Engine&) = delete;

  [[nodiscard]] Expected<void> receive(std::string_view bytes) noexcept;
  [[nodiscard]] std::size_t fill(std::span<char> out) noexcept;
  [[nodiscard]] bool has_output() const noexcept;
  void close_all(Errc cause) noexcept;
  void run_due() noexcept;
  [[nodiscard]] bool is_finished() const noexcept;
  [[nodiscard]] std::size_t open_streams() const noexcept { return open_; }
  [[nodiscard]] std::size_t abort_stalled(TimePoint now, Duration limit) noexcept;

  // For H2Stream.
  [[nodiscard]] bool is_server() const noexcept { return server_; }
  [[nodiscard]] nghttp2_session* native() noexcept { return alive() ? session_ : nullptr; }
  void changed() noexcept;                   // output may be ready
  void make_due(H2Stream& stream) noexcept;  // callbacks to run in settle()
  void offer(H2Stream& stream) noexcept;     // has body bytes, or its end, to send
  void finish(H2Stream& stream, Errc cause) noexcept;

 protected:
  virtual ~H2Engine();
  void start(bool server) noexcept;
  void link(H2Stream& stream) noexcept;
  [[nodiscard]] bool alive() const noexcept { return !fatal_ && !transport_closed_; }

  /// A pseudo header of the block that is being received.
  virtual void on_pseudo(std::string_view name, std::string_view value) noexcept = 0;
  virtual void on_block_begin() noexcept = 0;
  /// The block is complete: fields_, oversized_. `stream` is null when we know none (any more);
  /// `first`: a request.
  virtual void on_block_end(std::int32_t id, H2Stream* stream, bool first, bool end) noexcept = 0;
  /// requests_wait_: hands them to the handler.
  virtual void serve_waiting() noexcept {}
  virtual void on_goaway() noexcept {}
  virtual void on_goaway_sent() noexcept {}
  virtual void on_ping_ack() noexcept {}
  /// What the peer sent on a stream is no message.
  virtual void on_broken_message() noexcept {}
  /// No stream is open any more.
  virtual void on_last_finished() noexcept {}
  /// END_STREAM left; `stream` is not closed yet.
  virtual void on_local_end(H2Stream& stream) noexcept { (void)stream; }
  /// Cause for a stream that ended with this error code.
  [[nodiscard]] virtual Errc cause_of(const H2Stream& stream,
                                      std::uint32_t code) const noexcept = 0;

  void deliver_end(H2Stream& stream) noexcept;
  void fail_connection(std::uint32_t code) noexcept;

  nghttp2_session* session_ = nullptr;
  SessionLimits limits_;
  SessionHost& host_;
  ProtocolLimits watch_;
  std::size_t most_fields_ = kMaxFields;
  HeaderList fields_;  // of the block that is being received
  std::size_t block_size_ = 0;
  std::size_t block_wire_ = 0;  // the same before it was decoded
  bool oversized_ = false;      // the block broke a limit; fields_ is incomplete
  /// Requests of which the handler has not heard yet: whoever resets one at once costs little.
  bool requests_wait_ = false;
  bool server_ = false;
  bool transport_closed_ = false;

 private:
  friend struct H2Callbacks;
  [[nodiscard]] bool is_abused() const noexcept {
    return server_ ? watch_.should_close() : watch_.is_flooded();
  }
  void count_fed(std::size_t bytes) noexcept;
  void count_frame(const nghttp2_frame_hd& header) noexcept;
  void count_data(const nghttp2_data& frame, const H2Stream* stream) noexcept;
  void take_late(H2Stream& stream, std::size_t bytes) noexcept;
  void stop_request(H2Stream& stream) noexcept;
  [[nodiscard]] std::size_t copy_pending(char* out, std::size_t room) noexcept;
  void submit_next() noexcept;
  void approach(std::size_t first, std::size_t count) const noexcept;
  [[nodiscard]] Expected<void> receive_slice(std::string_view bytes) noexcept;
  [[nodiscard]] Expected<void> hand_over(std::string_view bytes) noexcept;
  [[nodiscard]] Expected<void> judge_frame() noexcept;

  std::unique_ptr<StreamOrder> order_;  // server
  std::array<char, 64> greeting_;       // server: SETTINGS, until they are sent
  H2Stream* streams_ = nullptr;
  H2Stream* due_head_ = nullptr;
  H2Stream* due_tail_ = nullptr;
  std::vector<std::int32_t>
      offered_;  // streams of which nghttp2 is to be told, from next_offer_ on
  std::size_t next_offer_ = 0;
  H2Stream* sending_ = nullptr;  // whose DATA frame is being made
  std::size_t open_ = 0;
  std::string_view
      pending_;  // control bytes of nghttp2 that did not fit; valid until the next mem_send
  std::string farewell_;  // GOAWAY of our own after a fatal error
  char* out_ = nullptr;   // during fill()
  std::size_t room_ = 0;
  std::size_t filled_ = 0;
  std::uint64_t fed_ = 0;  // client: bytes so far
  /// Client: of these, what belongs to frames that nghttp2 told of, and what may have come on
  /// streams that were given up. It says nothing of frames that it does not know.
  std::uint64_t explained_ = 0;
  std::uint32_t window_updates_due_ = 64;  // WINDOW_UPDATEs that our DATA explains
  bool entered_ = false;  // nghttp2 runs: whoever enters it again from its callbacks is refused
  bool receiving_ = false;
  bool running_ = false;
  bool paused_ = false;   // a DATA frame waits for room
  bool crowded_ = false;  // and its stream has much more
  bool fatal_ = false;
  bool warned_ = false;
};

/// Adds the shared functions to one of the two public session interfaces.
template <class Interface>
class H2SessionOf : public Interface, public H2Engine {
 public:
  using H2Engine::H2Engine;
  [[nodiscard]] Expected<void> feed(std::string_view bytes) noexcept final {
    return receive(bytes);
  }
  [[nodiscard]] std::size_t produce(std::span<char> out) noexcept final { return fill(out); }
  [[nodiscard]] bool wants_write() const noexcept final { return has_output(); }
  void set_now(TimePoint now) noexcept final { watch_.set_now(now); }
  void on_transport_closed(Errc cause) noexcept final { close_all(cause); }
  void settle() noexcept final { run_due(); }
  std::size_t reset_stalled(TimePoint now, Duration limit) noexcept final {
    return abort_stalled(now, limit);
  }
  [[nodiscard]] std::size_t stream_count() const noexcept final { return open_streams(); }
  [[nodiscard]] bool finished() const noexcept final { return is_finished(); }
};

template <class Bytes>
void H2Stream::queue_body(Bytes bytes, bool end) noexcept {
  if (closed || ended) {
    return;
  }
  ended = end;
  queue.append(std::move(bytes));
  above_mark = above_mark || queue.size() > 64 * 1024;
  if (!offered && (end || !queue.empty())) {
    engine.offer(*this);
  }
  engine.changed();
}

}  // namespace kintsugi::http
