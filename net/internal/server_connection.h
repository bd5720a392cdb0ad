#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "http/handler.h"
#include "net/internal/connection.h"
#include "net/internal/read_turns.h"
#include "net/listener.h"

namespace kintsugi::net {

/// What a server connection needs from its listener.
class ServerConnectionOwner {
 public:
  [[nodiscard]] virtual const ListenerParams& params() const noexcept = 0;
  [[nodiscard]] virtual http::Handler& handler() noexcept = 0;
  [[nodiscard]] virtual ListenerStats& counters() noexcept = 0;
  /// Whose requests are read in a turn; go_on() is to be called when it is a connection's turn.
  [[nodiscard]] virtual ReadTurns& read_turns() noexcept = 0;
  /// It waits there.
  virtual void on_waiting() noexcept = 0;
  /// Bytes of its handshake have come: go_on() is to be called once, when it is its turn.
  virtual void on_handshake_bytes(class ServerConnection& connection) noexcept = 0;
  virtual void on_handshake_end(class ServerConnection& connection, bool success) noexcept = 0;
  virtual void on_protocol_error() noexcept = 0;
  virtual void on_connection_end(class ServerConnection& connection) noexcept = 0;

 protected:
  ~ServerConnectionOwner() = default;
};

/// One accepted connection: handshake, choice of protocol, identity, deadlines.
class ServerConnection final : public Connection, public ReadTurns::Reader {
 public:
  ServerConnection(Loop& loop, int fd, ServerConnectionOwner& owner, http::PeerInfo peer);

  /// @param ssl null: plain text.
  void start(SslPtr ssl);
  /// The listener is going away: no further call to it.
  void abandon() noexcept { owner_ = nullptr; }
  [[nodiscard]] bool in_handshake() const noexcept { return stage() == Stage::kHandshake; }
  /// Reads what has come.
  void go_on() noexcept;
  std::size_t index = 0;                         ///< the owner's
  bool waits = false;                            ///< the owner's: for go_on()
  std::unique_ptr<ConnectionBook::Place> place;  ///< the owner's; null: it is not counted
  const TimePoint accepted_at;
  /// Asks who this is now (Listener::review).
  void review() noexcept;
  /// It is open, and nothing runs on it.
  [[nodiscard]] bool is_idle() const noexcept {
    return stage() == Stage::kOpen && session_ != nullptr && stream_count() == 0;
  }
  /// A server's of the installation, or an operator's.
  [[nodiscard]] bool is_exempt() const noexcept { return exempt_; }
  /// Who pays for it, or its address.
  [[nodiscard]] const std::string& payer() const noexcept {
    return payer_.empty() ? peer_.address : payer_;
  }
  /// Its handshake has taken too long.
  void give_up() noexcept { shut(Errc::kDeadline); }

 private:
  bool puts_off_reading() noexcept override;
  void on_established() noexcept override;
  void on_bytes(std::string_view bytes) noexcept override;
  void on_last_bytes() noexcept override;
  [[nodiscard]] std::string_view feed_in_turn(std::string_view bytes) noexcept;
  void on_dead(Errc cause, bool handshake) noexcept override;
  void choose(bool http2) noexcept;
  [[nodiscard]] bool count_in();
  void check_deadlines() noexcept;
  void check_in(Duration delay);
  [[nodiscard]] Duration pace() const noexcept;
  void no_request_in_time() noexcept;

  ServerConnectionOwner* owner_;
  http::PeerInfo peer_;
  std::string start_;         // bytes that do not yet tell the protocol
  std::string unread_;        // of one read, which are its payer's next turn's
  TimePoint head_since_{};    // since when a request head is incomplete; zero: it is not
  TimePoint established_at_;  // the end of the handshake
  TimePoint ends_by_ = TimePoint::max();  // its identity has ended
  bool http2_ = false;
  bool crowded_ = false;  // its payer has too many
  bool exempt_ = false;
  std::string payer_;  // "": nobody is known
};

}  // namespace kintsugi::net
