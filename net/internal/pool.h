#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "http/session.h"
#include "net/congestion.h"
#include "net/internal/address_book.h"
#include "net/internal/client_connection.h"
#include "net/internal/dialer.h"
#include "net/internal/queued_stream.h"
#include "net/internal/round_trip.h"
#include "net/internal/tls_internal.h"
#include "net/internal/tunnel.h"
#include "net/server_credential.h"
#include "net/upstream.h"

namespace kintsugi::net {

class Pool;

/// What the three pools of one origin share: address, TLS, health, the right to dial.
struct Origin {
  Origin(Loop& the_loop, UpstreamParams the_params);

  Loop& loop;
  UpstreamParams params;
  std::string authority;
  std::shared_ptr<TlsContext> tls;
  std::unique_ptr<TlsSessionSlot> session;
  /// Sessions never survive a change of certificates; their slots must survive the connections that
  /// know them.
  std::vector<std::unique_ptr<TlsSessionSlot>> old_sessions;
  std::uint32_t failures_in_a_row = 0;
  TimePoint failing_since{};  ///< the first of them
  std::vector<Pool*> pools;
  std::string last_failure;
  std::int64_t certificate_end = 0;  ///< see peer_certificate_end()
  RoundTrip round_trip;
  /// See net/congestion.h.
  [[nodiscard]] bool is_far() const noexcept { return round_trip.value() > kFar; }
  /// A limit of the parameters, and the round trip that it did not think of.
  [[nodiscard]] Duration allow(Duration limit) const noexcept { return limit + round_trip.value(); }

  /// Addresses of the host that are still fresh, in the order to try; empty: look up first.
  [[nodiscard]] std::vector<SocketAddress> fresh_addresses();
  void set_addresses(std::vector<SocketAddress> addresses);
  void note_address(const SocketAddress& address, bool connected) {
    addresses_.on_result(address, connected, loop.now());
  }
  /// Healthy origins are dialled freely, failing ones 4 times a second with a burst of 8
  /// (PERF-263).
  [[nodiscard]] bool may_dial();
  /// Time after which may_dial() is worth another try: half of what the failure has lasted, 50 ms
  /// to 500 ms, after a minute 5 s; with jitter.
  [[nodiscard]] Duration dial_pause();
  /// 0.9 to 1.1 times `duration`.
  [[nodiscard]] Duration jitter(Duration duration);
  void note_failure(std::string text);
  /// The first one after failures wakes every pool.
  void note_success();
  /// Failing for less than the restart window: requests wait.
  [[nodiscard]] bool may_restart() const;
  void allow_dial() { tokens_ = tokens_ < 1 ? 1 : tokens_; }

 private:
  AddressBook addresses_;
  TimePoint addresses_until_{};
  double tokens_ = 8;
  TimePoint tokens_at_{};
  std::uint64_t random_;
  Timer recovered_;
};

/// The connections of one class to one origin, and the streams that wait for them
/// (PERF-261). Threads: its loop.
class Pool final : public ClientConnectionOwner {
 public:
  Pool(Origin& origin, UpstreamClass kind);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  http::RequestStream& open(const http::RequestHead& head, http::ResponseHandler& handler);
  [[nodiscard]] UpstreamStats stats() const noexcept;
  /// Running streams go on, new ones get new connections.
  void retire_connections() noexcept;
  /// Dials in the next turn when somebody waits, or when a failing origin is to be probed.
  void wake() noexcept;
  /// A dial or a handshake is going on.
  [[nodiscard]] bool arriving() const noexcept;

  /// A waiting stream was given up by its user.
  void withdraw(QueuedStream& stream) noexcept;
  /// The same, but on_close(cause) comes in a later turn.
  void fail_later(QueuedStream& stream, Errc cause) noexcept;

 private:
  struct Dial {
    std::unique_ptr<Lookup> lookup;
    std::unique_ptr<Connect> connect;
    std::unique_ptr<Tunnel> tunnel;  ///< over a proxy
    bool by_proxy = false;           ///< the addresses are the proxy's
    bool through = false;            ///< the proxy has made a connection
    ServerCredential::Proxy proxy;
    std::string fault;  ///< why there is no way
    QueuedStream* exclusive = nullptr;
  };

  [[nodiscard]] const UpstreamParams& params() const noexcept override { return origin_.params; }
  [[nodiscard]] http::SessionLimits limits() const noexcept override;
  [[nodiscard]] Duration jitter(Duration duration) noexcept override;
  [[nodiscard]] Duration allow(Duration limit) const noexcept override {
    return origin_.allow(limit);
  }
  void on_measured(Duration round_trip) noexcept override { origin_.round_trip.note(round_trip); }
  void on_established(ClientConnection& connection) noexcept override;
  void on_heard(ClientConnection& connection) noexcept override;
  void on_progress() noexcept override;
  void on_end(ClientConnection& connection, Errc cause, bool handshake) noexcept override;

  static constexpr std::size_t kUnshared = SIZE_MAX;
  [[nodiscard]] std::size_t room(const ClientConnection& connection) const noexcept;
  void dispatch();
  /// Of a far origin: dials so that its streams have several connections, puts those with the
  /// fewest streams first, and bounds how many each may get.
  /// @param more  streams that are about to be opened
  void spread(std::size_t more);
  void spread_if_far(std::size_t more) {
    if (origin_.is_far() || share_ != kUnshared) {
      spread(more);
    }
  }
  struct Count {
    std::size_t ready = 0, arriving = 0;  ///< connections
    std::size_t streams = 0;
  };
  [[nodiscard]] Count count() const noexcept;
  void dial_as_needed();
  void dial_later();
  void probe();
  [[nodiscard]] bool probes() const noexcept;
  void shorten_waits();
  void start_dial(QueuedStream* exclusive);
  void connect(Dial& dial, std::vector<SocketAddress> addresses);
  void on_addresses(Dial& dial, Expected<std::vector<SocketAddress>> addresses);
  void on_connected(Dial& dial, Expected<int> fd);
  /// Over a proxy that is connected, to the server itself.
  void dig(Dial& dial, int fd);
  void on_connect_failure(Error error, QueuedStream* exclusive);
  void on_queue_timeout();
  void arm_queue_timer();
  void report_failed();
  void count_tls_failure(const ClientConnection& connection);
  std::unique_ptr<Dial> take(Dial& dial);

  Origin& origin_;
  Loop& loop_;
  UpstreamClass kind_;
  bool closing_ = false;
  bool limit_known_ = false;
  std::size_t limit_ = 100;  // streams per connection
  std::vector<std::unique_ptr<Dial>> dials_;
  std::vector<std::unique_ptr<ClientConnection>> connections_;
  StreamList queue_;               // wait for any connection
  StreamList exclusive_;           // wait for their own
  StreamList failed_;              // wait for their on_close
  std::size_t share_ = kUnshared;  // streams of a connection: spread()
  TimePoint hold_until_{};         // watches wait for connections that come
  Timer queue_timer_, failed_timer_, dial_timer_, hold_timer_;
  UpstreamStats counters_;
};

}  // namespace kintsugi::net
