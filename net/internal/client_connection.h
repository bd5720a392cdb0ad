#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "http/forwarding_client.h"
#include "http/session.h"
#include "net/internal/connection.h"
#include "net/upstream.h"

namespace kintsugi::net {

class ClientConnection;
class QueuedStream;

/// What a client connection needs from its pool.
class ClientConnectionOwner {
 public:
  [[nodiscard]] virtual const UpstreamParams& params() const noexcept = 0;
  [[nodiscard]] virtual http::SessionLimits limits() const noexcept = 0;
  [[nodiscard]] virtual Duration jitter(Duration duration) noexcept = 0;
  /// A limit of the parameters at this distance.
  [[nodiscard]] virtual Duration allow(Duration limit) const noexcept = 0;
  /// measure() has; before limits() is asked.
  virtual void on_measured(Duration round_trip) noexcept = 0;
  virtual void on_established(ClientConnection& connection) noexcept = 0;
  /// The first bytes were fed, so the peer's SETTINGS are known.
  virtual void on_heard(ClientConnection& connection) noexcept = 0;
  /// Streams may have ended.
  virtual void on_progress() noexcept = 0;
  virtual void on_end(ClientConnection& connection, Errc cause, bool handshake) noexcept = 0;

 protected:
  ~ClientConnectionOwner() = default;
};

/// One connection to an origin: handshake, session by ALPN, liveness by PING, idle end.
class ClientConnection final : public Connection {
 public:
  /// @param exclusive the upgrade it is made for; null: part of the pool
  ClientConnection(Loop& loop, int fd, ClientConnectionOwner& owner, QueuedStream* exclusive);

  /// @param ssl null: plain text.
  void start(SslPtr ssl);
  /// Before start(): the other end is a proxy that forwards requests.
  void forward(http::ForwardingProxy proxy) { proxy_ = std::move(proxy); }
  /// Before start(): the kernel sees no further than to a proxy, so the handshake tells how far
  /// away the server is.
  void measure() noexcept { measures_ = true; }
  void abandon() noexcept { owner_ = nullptr; }

  /// Null until the handshake is done.
  [[nodiscard]] http::ClientSession* session() const noexcept { return client_; }
  [[nodiscard]] bool ready() const noexcept {
    return client_ != nullptr && stage() == Stage::kOpen && !client_->draining();
  }
  [[nodiscard]] bool http2() const noexcept { return http2_; }
  [[nodiscard]] bool heard() const noexcept { return fed_; }
  /// A request begins that nobody may repeat. An HTTP/1.1 server ends a connection that is idle
  /// when it likes: if it has by the time that the request would be sent, the request is not (its
  /// stream gets kNotProcessed).
  void look_first() noexcept { looks_first_ = !http2_ && fed_; }
  [[nodiscard]] bool ping_lost() const noexcept { return ping_lost_; }

  const bool dedicated;     ///< made for one upgrade, not for the pool
  QueuedStream* exclusive;  ///< that upgrade, while it waits

 private:
  void on_established() noexcept override;
  void on_bytes(std::string_view bytes) noexcept override;
  void on_flushed() noexcept override;
  void on_dead(Errc cause, bool handshake) noexcept override;
  void check_liveness() noexcept;
  void check_in(Duration delay);

  ClientConnectionOwner* owner_;
  std::optional<http::ForwardingProxy> proxy_;
  http::ClientSession* client_ = nullptr;
  TimePoint last_active_;
  TimePoint ping_sent_{};
  TimePoint started_at_{};
  bool http2_ = false;
  bool fed_ = false;  ///< so the peer's SETTINGS are known
  bool ping_outstanding_ = false;
  bool ping_lost_ = false;
  bool measures_ = false;
};

/// A SSL in connect state for `url`: ALPN, SNI, verification name, stored session.
/// @error kConfig a name that OpenSSL does not take
[[nodiscard]] Expected<SslPtr> make_client_ssl(const TlsContext& context, const Url& url,
                                               bool http2, TlsSessionSlot& slot);

}  // namespace kintsugi::net
