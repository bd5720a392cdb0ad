#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "http/handler.h"
#include "http/session.h"
#include "net/loop.h"
#include "net/tls.h"

namespace kintsugi::net {

/// An http(s) URL split up. Source: RFC 3986; only what backends need.
struct Url {
  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< without brackets
  std::uint16_t port = 0;
  std::string path;  ///< "" or "/prefix", no trailing slash
  /// host:port, with brackets for IPv6, port left out when it is the scheme's default.
  [[nodiscard]] std::string authority() const;
  [[nodiscard]] static Expected<Url> parse(std::string_view text);
  bool operator==(const Url&) const = default;
};

/// Separate connections, so that a burst of one kind never delays another.
enum class UpstreamClass : std::uint8_t { kWatch, kRead, kWrite };

struct UpstreamParams {
  Url url;
  std::shared_ptr<TlsContext> tls;   ///< for https
  bool http2 = true;                 ///< offer h2; plain http uses HTTP/1.1 unless prior_knowledge
  bool prior_knowledge = false;      ///< h2 without TLS
  std::size_t max_connections = 64;  ///< per class
  std::size_t max_queued = 4'096;    ///< streams waiting for a connection; more: kOverloaded
  Duration queue_timeout =
      seconds(5);  ///< then kUnreachable (or kOverloaded when connections are full)
  Duration connect_timeout = seconds(5);
  Duration tls_timeout = seconds(10);
  Duration ping_after = seconds(15);    ///< read silence with open streams
  Duration ping_timeout = seconds(15);  ///< then the connection is dead
  Duration idle_close = seconds(90);    ///< a connection without streams
  /// After the first of several connection-level failures in a row the origin may just be starting
  /// again: for this long requests that are not sent yet wait for it, each at most `restart_wait`,
  /// and it is dialled in the background until it answers. Zero: they fail with the first failure.
  Duration restart_window{};
  Duration restart_wait = seconds(1);
  /// The first answer after failures; in a turn of its own.
  std::function<void()> on_recovered;
};

struct UpstreamStats {
  std::size_t connections = 0, connecting = 0, streams = 0, queued = 0;
  std::uint64_t opened = 0, failed = 0, requests = 0;
  /// Failed handshakes by cause (FP-081).
  std::uint64_t tls_unknown_ca = 0, tls_expired = 0, tls_hostname = 0, tls_cipher = 0,
                tls_other = 0;
};

/// The pool of one origin on one loop (PERF-261). The limits of the parameters are for an origin
/// that is near: the measured round trip comes on top. A far one (congestion.h) has several
/// connections as soon as it has several streams, which are spread over them, and wider windows
/// (GR-507). Threads: its loop only.
class Upstream {
 public:
  [[nodiscard]] static std::unique_ptr<Upstream> make(Loop& loop, UpstreamParams params);
  /// Every running exchange gets on_close(kCancelled) before it returns; they must not open new
  /// ones. Never destroy it from inside a callback of one of its own exchanges: use Loop::defer.
  virtual ~Upstream() = default;

  /// Starts a request as soon as a connection has room. Always returns a stream: if it cannot be
  /// sent, the handler's on_close comes in a later turn with kRefused, kUnreachable, kTls,
  /// kDeadline, kOverloaded or kNotProcessed (none of which reached the server) or kReset/kClosed
  /// (which may have). Body bytes may be sent before the connection is there. The head goes out as
  /// it is, only an empty scheme or authority is filled in from the URL; its path is not prefixed.
  /// A head with `protocol` (Upgrade) always gets a HTTP/1.1 connection of its own.
  /// Cost: one session call when a connection has room; the returned stream is then the engine's
  /// own.
  /// @param handler must live until on_close or until detach() of the returned stream.
  /// @param head copied only when the request has to wait.
  [[nodiscard]] virtual http::RequestStream& open(UpstreamClass kind, const http::RequestHead& head,
                                                  http::ResponseHandler& handler) = 0;
  [[nodiscard]] virtual UpstreamStats stats(UpstreamClass kind) const noexcept = 0;
  [[nodiscard]] virtual const UpstreamParams& params() const noexcept = 0;
  /// Requests go to connections made with the new context from now on; old ones finish their
  /// streams and close.
  virtual void set_tls(std::shared_ptr<TlsContext> tls) noexcept = 0;
  /// Somebody knows that the origin answers again: waiting requests dial at once.
  virtual void retry_now() noexcept = 0;
  /// Number of connection-level failures in a row, for the health breaker.
  [[nodiscard]] virtual std::uint32_t failures_in_a_row() const noexcept = 0;
  /// Text of the newest connection-level failure ("certificate has expired"), "" when there was
  /// none.
  [[nodiscard]] virtual const std::string& last_failure() const noexcept = 0;
  /// To the origin and back, without what it takes there; zero while nobody knows. Of a server
  /// beyond a proxy that asks for its own connection, by the TLS handshake.
  [[nodiscard]] virtual Duration round_trip() const noexcept = 0;
  /// Other times than those of the parameters, of connections that there are as well: of the read
  /// silence with open streams, and of the wait for the answer to PING.
  virtual void set_ping(Duration after, Duration timeout) noexcept { (void)after, (void)timeout; }
  /// Null as soon as the upstream goes.
  using Handle = std::shared_ptr<Upstream* const>;
  /// Of several servers that answer alike: itself, while a request that one of them has lost may
  /// find another one. Else null.
  [[nodiscard]] virtual Handle elsewhere() noexcept { return nullptr; }
};

/// One request of the control plane, and its whole answer.
struct FetchRequest {
  std::string method = "GET";
  std::string target;  ///< path and query, appended to the upstream's path prefix
  http::HeaderList headers;
  std::string body;
  Duration timeout = seconds(10);  ///< and the round trip
  UpstreamClass kind = UpstreamClass::kRead;
  /// Nothing is changed by it, as by a GET: what one server has lost goes to another one that
  /// answers alike, twice at most (GR-301).
  bool repeatable = false;
};
struct FetchResponse {
  int status = 0;
  http::HeaderList headers;
  std::string body;  ///< at most max_body
};

/// A running exchange; destroying it cancels and no callback runs any more.
class Call {
 public:
  virtual ~Call() = default;
};

/// Sends, collects the body (limit 64 MiB, then kRequestEntityTooLarge), calls `done` once in a
/// later turn.
[[nodiscard]] std::unique_ptr<Call> fetch(Loop& loop, Upstream& upstream, FetchRequest request,
                                          std::function<void(Expected<FetchResponse>)> done);

/// For watches: the head, then chunks as they come, then the end. `timeout` covers the time to the
/// head only.
struct StreamCallbacks {
  std::function<void(const http::ResponseHead&)> on_head;
  std::function<void(std::string_view)> on_data;
  std::function<void(Errc)> on_end;  ///< kOk: END_STREAM
};
[[nodiscard]] std::unique_ptr<Call> stream(Loop& loop, Upstream& upstream, FetchRequest request,
                                           StreamCallbacks callbacks);

}  // namespace kintsugi::net
