#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/time.h"
#include "http/abuse.h"
#include "http/handler.h"
#include "http/session.h"
#include "net/connection_book.h"
#include "net/internal/listener_group.h"
#include "net/loop.h"
#include "net/tls.h"

namespace kintsugi::net {

/// Accepts connections on one loop: TCP (TLS or plain) or a Unix socket, HTTP/2 by ALPN or prior
/// knowledge, else HTTP/1.1.
/// What an open connection is from now on; see Listener::review().
struct PeerVerdict {
  std::shared_ptr<const void> identity;  ///< for PeerInfo::identity
  bool ended = false;                    ///< what the connection began with holds no longer
};

/// Whose connection it is.
struct ConnectionOwner {
  std::string payer;    ///< "": nobody is known
  bool exempt = false;  ///< a server of the installation: it may have as many as it wants
};

struct ListenerParams {
  std::string address =
      "127.0.0.1";          ///< IP address, or the path of a Unix socket when it begins with '/'
  std::uint16_t port = 0;   ///< 0: chosen by the kernel, see Listener::port()
  bool reuse_port = false;  ///< SO_REUSEPORT, one listener per loop on the same port
  /// A socket that is bound already, in the place of all these; it stays the caller's, who may give
  /// it to the listeners of other loops, too. -1: none.
  int inherited = -1;
  std::shared_ptr<TlsContext> tls;  ///< null: plain text
  http::SessionLimits limits;
  std::uint32_t max_handshakes = 64;  ///< more wait in the accept backlog
  Duration handshake_timeout = seconds(10);
  /// While others wait in the backlog, a handshake that has had this long and waits for its peer
  /// gives way: clients that keep silent must not keep everybody out.
  Duration crowded_handshake_timeout = seconds(1);
  Duration header_timeout = seconds(10);         ///< a started request head
  Duration first_request_timeout = seconds(30);  ///< after the handshake
  Duration progress_timeout = seconds(60);  ///< a slow reader, see http::Session::reset_stalled
  Duration idle_timeout = seconds(90);      ///< no stream open
  /// The listeners of the other loops on this port; null: connections stay where the kernel puts
  /// them.
  std::shared_ptr<ListenerGroup> group;
  /// Called once per connection after the handshake; the result goes to PeerInfo::identity.
  /// The certificates are the hook's then: PeerInfo has them no longer.
  std::function<std::shared_ptr<const void>(const http::PeerInfo&)> identify;
  /// Asked by review() about every connection with an identity; empty: they keep it.
  std::function<PeerVerdict(const std::shared_ptr<const void>& identity)> review;
  /// So long may streams go on that run when their connection's identity ends (SE-042).
  Duration ended_grace = seconds(60);
  /// Counts the connections of the process, and bounds them; null: they are not counted.
  std::shared_ptr<ConnectionBook> book;
  /// Asked once about each connection with an identity; empty: they count for their address alone.
  std::function<ConnectionOwner(const http::PeerInfo&)> owner;
  /// Answers connections of a payer who has too many; must outlive the listener. Null: `handler`.
  http::Handler* crowded = nullptr;
  /// Connections that carry requests of many, as those of a proxy do (SE-126). Empty: none.
  std::function<bool(const http::PeerInfo&)> speaks_for_many;
};

struct ListenerStats {
  std::size_t connections = 0, handshakes = 0, streams = 0;
  std::uint64_t accepted = 0, handshake_errors = 0, protocol_errors = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t no_request = 0;          ///< connections closed: no complete request (head) in time
  std::uint64_t slow_readers = 0;        ///< streams reset: the client took nothing
  std::uint64_t handed_over = 0;         ///< accepted here, served by another loop
  std::uint64_t without_descriptor = 0;  ///< connections closed: the process has no more
  std::size_t largest_queue = 0;         ///< [bytes]
  http::AbuseCounters abuse;             ///< what clients did that costs and brings nothing
};

class Listener {
 public:
  /// @param handler answers everything; must outlive the listener.
  /// @error kConfig or kIo with address and cause ("127.0.0.1:6443: address already in use").
  [[nodiscard]] static Expected<std::unique_ptr<Listener>> open(Loop& loop, ListenerParams params,
                                                                http::Handler& handler);
  virtual ~Listener() = default;
  [[nodiscard]] virtual std::uint16_t port() const noexcept = 0;
  /// New connections use the new context; running ones go on.
  virtual void set_tls(std::shared_ptr<TlsContext> tls) noexcept = 0;
  /// Asks ListenerParams::review about every open connection. Requests that begin from now on have
  /// the identity that it gives; a connection whose own has ended gets the two GOAWAYs (HTTP/1.1:
  /// goes on, its next request is answered by what the identity is now) and is cut after
  /// `ended_grace`. Cost: 50 ns per connection.
  virtual void review() noexcept = 0;
  /// Starts the graceful end of up to `most` connections without a stream, those of the payer who
  /// has most of them first (SE-091); whose owner is exempt stay. @returns how many.
  virtual std::size_t shed_idle(std::size_t most) = 0;
  /// Stops accepting and starts the graceful end of every connection. `done` runs when the last one
  /// is gone.
  virtual void drain(std::function<void()> done) = 0;
  /// Closes everything at once, as the destructor does. Never from inside a callback of one of its
  /// streams: use Loop::defer.
  virtual void close() noexcept = 0;
  [[nodiscard]] virtual ListenerStats stats() const noexcept = 0;
};

}  // namespace kintsugi::net
