#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "http/session.h"
#include "net/loop.h"
#include "net/transport.h"

namespace kintsugi::net {

/// A transport and the session it carries, driven by one loop: reads at most 64 KiB per turn,
/// writes in the flush pass only. Server and client connections add how a session comes to be and
/// what happens at the end. Threads: its loop. Lifetime: owned by a listener or a pool, which
/// destroys it after the turn (Loop::defer), never inside one of its hooks.
class Connection : public FdHandler, public Loop::Flushable, public http::SessionHost {
 public:
  enum class Stage : std::uint8_t {
    kHandshake,  ///< TLS
    kOpen,       ///< bytes go to on_bytes()
    kLingering,  ///< everything is said; what the peer still sends is dropped
    kClosed,
  };

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection();

  void on_ready(bool readable, bool writable) noexcept final;
  void on_hangup() noexcept final;
  void flush() noexcept final;
  void output_ready() noexcept final;

  /// Ends it now: streams get on_close(cause), then on_dead(cause). No-op when it is closed.
  void shut(Errc cause) noexcept;
  /// GOAWAY or Connection: close; the end comes when the streams are done.
  void drain() noexcept;

  [[nodiscard]] Stage stage() const noexcept { return stage_; }
  /// Of a server: a complete request head has come.
  [[nodiscard]] bool has_asked() const noexcept {
    return session_ != nullptr && session_->requests() != 0;
  }
  [[nodiscard]] const Transport& transport() const noexcept { return transport_; }
  [[nodiscard]] std::size_t stream_count() const noexcept {
    return session_ == nullptr ? 0 : session_->stream_count();
  }

 protected:
  Connection(Loop& loop, int fd) noexcept;

  /// Registers the descriptor; with an SSL the handshake begins.
  void begin(SslPtr ssl);
  /// Reads what has come.
  void read_now() noexcept;

  /// Bytes have come. True: they are read later, by read_now().
  [[nodiscard]] virtual bool puts_off_reading() noexcept { return false; }

  /// TLS is up (or there is none): make the session, or wait for bytes.
  virtual void on_established() noexcept = 0;
  /// Plain text arrived. Default: feed().
  virtual void on_bytes(std::string_view bytes) noexcept { feed(bytes); }
  /// The peer sends no more: what on_bytes() has kept is fed now.
  virtual void on_last_bytes() noexcept {}
  /// The end of a turn in which something was read or written.
  virtual void on_flushed() noexcept {}
  /// Nothing happens here any more. `handshake` tells that it never came to on_established().
  virtual void on_dead(Errc cause, bool handshake) noexcept = 0;

  void feed(std::string_view bytes) noexcept;
  void set_session(std::unique_ptr<http::Session> session) noexcept;

  Loop& loop_;
  Transport transport_;
  std::unique_ptr<http::Session> session_;
  TimePoint last_read_;
  bool looks_first_ = false;  ///< before anything is sent, what has come is read
  bool lingers_ = false;  ///< servers: wait for the peer's end, so that no RST eats our last bytes
  Timer timer_;           ///< for the owner's deadlines; the base class uses it while lingering

 private:
  void read() noexcept;
  void on_read_end() noexcept;
  void end_gracefully() noexcept;
  void discard() noexcept;

  Stage stage_ = Stage::kHandshake;
  bool hangup_ = false;        ///< no further edge will come for reading
  bool read_paused_ = false;   ///< the session did not want bytes
  bool failing_ = false;       ///< the session broke; flush and close
  bool heard_ = false;         ///< plain text has come
  bool read_closed_ = false;   ///< the peer ended its side and the session goes on
  bool write_closed_ = false;  ///< we ended ours and the session goes on
};

}  // namespace kintsugi::net
