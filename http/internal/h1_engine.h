#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "http/handler.h"
#include "http/internal/h1_message.h"
#include "http/internal/send_queue.h"
#include "http/session.h"

namespace kintsugi::http {

/// One HTTP/1.x connection: what server and client have in common. There is one exchange at a time,
/// and it is part of the engine. Rule: handlers run only from feed(), settle() and
/// transport_closed().
class H1Engine {
 public:
  H1Engine(bool client, SessionHost& host, const SessionLimits& limits) noexcept
      : limits_(limits), host_(host), client_(client) {}
  H1Engine(const H1Engine&) = delete;
  H1Engine& operator=(const H1Engine&) = delete;

  // Session
  [[nodiscard]] Expected<void> receive(std::string_view bytes) noexcept;
  [[nodiscard]] std::size_t fill(std::span<char> out) noexcept;
  [[nodiscard]] bool has_output() const noexcept;
  [[nodiscard]] bool can_read() const noexcept;
  [[nodiscard]] bool take_read_end() noexcept;
  [[nodiscard]] bool needs_shutdown() const noexcept;
  void close_all(Errc cause) noexcept;
  void run_due() noexcept;
  [[nodiscard]] bool is_finished() const noexcept;
  [[nodiscard]] bool busy() const noexcept { return exchange_; }
  [[nodiscard]] std::size_t abort_stalled(TimePoint now, Duration limit) noexcept;

  // Stream
  template <class Bytes>
  void queue_body(Bytes bytes, bool end) noexcept {
    if (!admit_body(bytes.size())) {
      return;
    }
    if (!body_dropped_) {
      queue_.append(std::move(bytes));
      above_mark_ = above_mark_ || queue_.size() > kHighMark;
    }
    if (end) {
      end_body();
    }
    changed();
  }
  void queue_trailers(const HeaderList& fields) noexcept;
  void abort(Errc cause) noexcept;
  void credit(std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t unsent() const noexcept { return queue_.size(); }

 protected:
  static constexpr std::size_t kHighMark = 64 * 1024;
  static constexpr std::size_t kLowMark = 32 * 1024;

  enum class Input : std::uint8_t {
    kHead,     ///< reads a head (client: only while a request runs)
    kBody,     ///< reads the body of the exchange
    kWait,     ///< leaves bytes alone: the next request waits until this answer is out
    kTunnel,   ///< passes bytes through
    kDiscard,  ///< server: reads the rest of a body that nobody wants
    kIgnore    ///< the connection ends; bytes are dropped
  };

  virtual ~H1Engine() = default;
  /// A complete head is at the front of `text`; the role parses it and sets input_.
  virtual H1Result<void> on_head_text(std::string_view text) noexcept = 0;
  /// Malformed input. The server answers when it still can.
  virtual void on_fault(const H1Fault& fault) noexcept = 0;
  /// The body with its trailers was delivered.
  virtual void on_body_end() noexcept {}
  /// After handler_ got on_close: get ready for the next exchange.
  virtual void on_exchange_end() noexcept = 0;

  void changed() noexcept;
  void begin_exchange(StreamHandler* handler) noexcept;
  void finish(Errc cause) noexcept;  // on_close follows in settle()
  [[nodiscard]] bool finishing() const noexcept { return finished_due_; }
  void drop_output() noexcept;
  void end_body() noexcept;
  void append_fields(const HeaderList& fields, bool keep_length);
  void start_tunnel() noexcept;

  SessionLimits limits_;
  SessionHost& host_;
  const bool client_;
  StreamHandler* handler_ = nullptr;

  // Receiving
  Input input_ = Input::kHead;
  std::string in_;  // received and not yet read
  H1HeadScanner scanner_;
  H1BodyReader reader_;
  std::size_t unconsumed_ = 0;
  bool head_begun_ = false;  // bytes of a head are waiting for the rest
  bool in_done_ = false;     // everything the peer had for this exchange was delivered

  // Sending
  std::string text_;  // heads and the end of chunked bodies
  std::size_t text_sent_ = 0;
  SendQueue queue_;
  std::unique_ptr<HeaderList> trailers_;
  std::uint64_t length_left_ = 0;  // of an announced Content-Length
  bool has_length_ = false;
  bool chunked_ = false;
  bool head_out_ = false;      // the head is in text_ or beyond; body bytes may follow
  bool hold_body_ = false;     // client: the tunnel is not granted yet
  bool body_dropped_ = false;  // HEAD, 204, 304
  bool out_ended_ = false;     // our side got its `end`
  bool out_done_ = false;      // and all of it was produced
  bool above_mark_ = false;
  bool drained_due_ = false;
  bool any_produced_ = false;  // bytes of this exchange left
  bool moved_ = false;         // bytes left since abort_stalled() looked
  TimePoint stuck_since_{};    // bytes wait and none has left; zero: not so

  // Connection
  bool exchange_ = false;
  bool closing_ = false;  // no further exchange; finished() when idle
  bool broken_ = false;   // finished() as soon as text_ is out
  bool transport_closed_ = false;
  bool tunnel_ = false;

 private:
  [[nodiscard]] bool admit_body(std::size_t size) noexcept;
  [[nodiscard]] H1Result<std::size_t> read_some(std::string_view in) noexcept;
  [[nodiscard]] H1Result<std::size_t> read_head(std::string_view in) noexcept;
  [[nodiscard]] H1Result<std::size_t> read_body(std::string_view in) noexcept;
  [[nodiscard]] H1Result<std::size_t> read_all(std::string_view in) noexcept;
  [[nodiscard]] bool take_buffered() noexcept;
  [[nodiscard]] std::size_t copy_text(std::span<char> out) noexcept;
  [[nodiscard]] std::size_t copy_body(std::span<char> out, bool first) noexcept;
  void deliver(std::string_view bytes, bool end) noexcept;
  void check_complete() noexcept;
  void end_exchange() noexcept;

  std::size_t discarded_ = 0;
  Errc cause_ = Errc::kOk;
  bool finished_due_ = false;  // on_close is due
  bool read_ended_ = false;    // the peer of a tunnel sends no more
  bool receiving_ = false;
  bool running_ = false;
  bool blocked_ = false;  // can_read() was false when it was last looked at
};

/// Adds the shared functions to a public session interface and a public stream interface.
template <class SessionInterface, class StreamInterface>
class H1SessionOf : public SessionInterface, public StreamInterface, public H1Engine {
 public:
  H1SessionOf(bool client, SessionHost& host, const SessionLimits& limits) noexcept
      : H1Engine(client, host, limits) {}
  [[nodiscard]] Expected<void> feed(std::string_view bytes) noexcept final {
    return receive(bytes);
  }
  [[nodiscard]] std::size_t produce(std::span<char> out) noexcept final { return fill(out); }
  [[nodiscard]] bool wants_write() const noexcept final { return has_output(); }
  [[nodiscard]] bool wants_read() const noexcept final { return can_read(); }
  [[nodiscard]] bool on_read_closed() noexcept final { return take_read_end(); }
  [[nodiscard]] bool wants_shutdown() const noexcept final { return needs_shutdown(); }
  void on_transport_closed(Errc cause) noexcept final { close_all(cause); }
  void settle() noexcept final { run_due(); }
  std::size_t reset_stalled(TimePoint now, Duration limit) noexcept final {
    return abort_stalled(now, limit);
  }
  [[nodiscard]] std::size_t stream_count() const noexcept final { return busy() ? 1 : 0; }
  [[nodiscard]] bool finished() const noexcept final { return is_finished(); }
  void start_drain() noexcept final {
    closing_ = true;
    changed();
  }

  void send_data(std::string_view bytes, bool end) noexcept final { queue_body(bytes, end); }
  void send_data(SharedBytes bytes, bool end) noexcept final { queue_body(std::move(bytes), end); }
  void send_trailers(const HeaderList& fields) noexcept final { queue_trailers(fields); }
  void reset(Errc cause) noexcept final { abort(cause); }
  void consume(std::size_t bytes) noexcept final { credit(bytes); }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept final { return unsent(); }
};

}  // namespace kintsugi::http
