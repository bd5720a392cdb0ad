#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "http/handler.h"

/// Protocol engines of one connection, without sockets and clocks: bytes in, bytes out, callbacks
/// to handlers. Threads: the owning loop. Lifetime: the connection owns its session; never destroy
/// a session from inside one of its callbacks.
namespace kintsugi::http {

/// Limits of one connection (PERF-221, PERF-251, SE-124 to SE-132). Defaults are the product's.
struct SessionLimits {
  std::uint32_t max_streams = 250;
  std::uint32_t stream_window = 65'535;  ///< receive window per stream [bytes]
  std::uint32_t connection_window =
      1U << 20;  ///< receive window of the connection, credited on arrival [bytes]
  std::size_t max_header_list = 64 * 1024;  ///< above: 431
  std::size_t max_header = 32 * 1024;       ///< one field, above: 431
  std::uint32_t max_glitches = 100;         ///< GOAWAY at 3/4, close at the limit
  bool send_date = false;                   ///< server: Date on heads that have none
};

/// What a session needs from its owner.
class SessionHost {
 public:
  /// The session has bytes to send although feed() is not running. May be called often; only marks
  /// the connection dirty.
  virtual void output_ready() noexcept = 0;

 protected:
  ~SessionHost() = default;
};

/// What server and client sessions share.
class Session {
 public:
  virtual ~Session() = default;
  /// Consumes received bytes (all of them). A returned error means: flush what produce() still
  /// gives (GOAWAY, 400) and close.
  [[nodiscard]] virtual Expected<void> feed(std::string_view bytes) noexcept = 0;
  /// Moves up to out.size() bytes of wire data into `out`; returns how many. 0: nothing to send
  /// now, or the room is too small for the next frame: 64 bytes always suffice, so call again with
  /// a fresh span while wants_write().
  [[nodiscard]] virtual std::size_t produce(std::span<char> out) noexcept = 0;
  [[nodiscard]] virtual bool wants_write() const noexcept = 0;
  /// False while the owner should leave bytes in the socket: HTTP/1.1 has no windows, so an engine
  /// says false while more received body is unconsumed than it cares to have out (or after Upgrade,
  /// while the peer pipe is full). The owner asks before every read; when it turns true again the
  /// engine calls output_ready(). HTTP/2 engines always say true.
  [[nodiscard]] virtual bool wants_read() const noexcept { return true; }
  /// Time for the rate limits of SE-124 to SE-132. The owner calls it once per turn,
  /// before feed(). While it was never called the limits that need time are off.
  virtual void set_now(TimePoint now) noexcept { (void)now; }
  /// True while the first bytes of a request head (HTTP/2: of a header block) wait for the rest:
  /// the owner runs its header timer.
  [[nodiscard]] virtual bool head_started() const noexcept { return false; }
  /// The owner's header timer fired: a started HTTP/1.1 request is answered by 408, and finished()
  /// follows. HTTP/2: GOAWAY, and finished() follows.
  virtual void on_head_timeout() noexcept {}
  /// Server: complete request heads so far.
  [[nodiscard]] virtual std::uint64_t requests() const noexcept { return 0; }
  /// Server: resets every stream (HTTP/1.1: ends the connection) of which the peer has taken
  /// nothing for `limit` although its whole answer, or more than 64 KiB of it, waits. An event
  /// stream with less in its queue is left alone. Progress is noticed from call to call, so the
  /// owner calls it several times per `limit`. @returns how many were reset. HTTP/2: also ends
  /// requests that still go on 5 s after their answer was complete (RST_STREAM NO_ERROR, not
  /// counted); until then up to 64 KiB of their bodies are taken.
  virtual std::size_t reset_stalled(TimePoint now, Duration limit) noexcept {
    (void)now;
    (void)limit;
    return 0;
  }
  /// The peer ended its sending direction in order (EOF, close_notify). True: the session goes on
  /// without reads (a tunnel after Upgrade). False: the owner calls on_transport_closed(kClosed).
  [[nodiscard]] virtual bool on_read_closed() noexcept { return false; }
  /// True when our side of a tunnel has ended, everything is produced and the peer still sends: the
  /// owner ends the sending direction (close_notify, shutdown(SHUT_WR)) and goes on reading.
  [[nodiscard]] virtual bool wants_shutdown() const noexcept { return false; }
  /// The transport is gone. Every stream gets on_close(cause); the session is dead afterwards.
  /// Exceptions: a client request of which no byte was produced gets kNotProcessed, and kClosed
  /// ends an HTTP/1.1 response without length (kOk).
  virtual void on_transport_closed(Errc cause) noexcept = 0;
  /// Runs deferred callbacks and destroys finished streams. The owner calls it once per turn, after
  /// feed and produce.
  virtual void settle() noexcept = 0;
  /// Streams that are open now.
  [[nodiscard]] virtual std::size_t stream_count() const noexcept = 0;
  /// Two-step GOAWAY, or Connection: close. New streams are refused, running ones go on.
  virtual void start_drain() noexcept = 0;
  /// True when the connection should be closed now (drained, or HTTP/1.1 without keep-alive) and
  /// everything is sent.
  [[nodiscard]] virtual bool finished() const noexcept = 0;
};

class ClientSession : public Session {
 public:
  /// Starts a request. The head's connection-specific fields are dropped. `handler` gets the
  /// response.
  /// @error kOverloaded   no free stream slot
  /// @error kNotProcessed draining or closed
  [[nodiscard]] virtual Expected<RequestStream*> open(const RequestHead& head,
                                                      ResponseHandler& handler) noexcept = 0;
  /// Streams that can be opened now: min(peer's MAX_CONCURRENT_STREAMS, own limit) minus the open
  /// ones. 1 or 0 for HTTP/1.1.
  [[nodiscard]] virtual std::size_t free_slots() const noexcept = 0;
  /// The limit itself; before the peer's SETTINGS arrive the assumed 100.
  [[nodiscard]] virtual std::size_t slot_limit() const noexcept = 0;
  /// No new streams (GOAWAY received or start_drain called).
  [[nodiscard]] virtual bool draining() const noexcept = 0;
  /// Sends PING; the answer counts as received bytes for the owner's liveness check. No-op for
  /// HTTP/1.1.
  virtual void ping() noexcept = 0;
};

/// @param handler answers the requests; must outlive the session.
/// @param peer    facts for ResponseStream::peer(); must outlive the session.
[[nodiscard]] std::unique_ptr<Session> make_h2_server(Handler& handler, const PeerInfo& peer,
                                                      SessionHost& host,
                                                      const SessionLimits& limits);
[[nodiscard]] std::unique_ptr<Session> make_h1_server(Handler& handler, const PeerInfo& peer,
                                                      SessionHost& host,
                                                      const SessionLimits& limits);
[[nodiscard]] std::unique_ptr<ClientSession> make_h2_client(SessionHost& host,
                                                            const SessionLimits& limits);
[[nodiscard]] std::unique_ptr<ClientSession> make_h1_client(SessionHost& host,
                                                            const SessionLimits& limits);

}  // namespace kintsugi::http
