#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "http/headers.h"

/// The seam between protocol engines and everything that answers or sends requests. One vocabulary
/// for HTTP/1.1 and HTTP/2, for server and client. Nothing here does I/O. Threads: all objects
/// belong to one loop.
///
/// Rules that hold for both directions
/// - An engine owns its streams. References to Stream objects end with the handler's on_close,
/// which is always the last call.
/// - Handlers may call any Stream function from inside any callback, also from inside on_request.
/// Engines never call back
///   from inside a Stream function: on_close, on_drained and the like come later in the turn.
/// - Received body bytes are valid during the callback only and count against the peer's
/// flow-control window until
///   Stream::consume gives them back.
namespace kintsugi::http {

/// A parsed request line and its header fields.
struct RequestHead {
  std::string method;     ///< as sent ("GET"; "get" is another method)
  std::string scheme;     ///< "https" or "http"
  std::string authority;  ///< :authority or Host, may be empty
  std::string target;  ///< origin form: path and "?query", as sent, not decoded; "*" for OPTIONS *
  std::string protocol;  ///< :protocol of an extended CONNECT (RFC 8441), or the Upgrade token of
                         ///< HTTP/1.1, else empty
  HeaderList
      headers;  ///< without pseudo headers and Host; hop-by-hop fields of HTTP/1.1 are still there
  int version = 2;  ///< 1 or 2
  bool end_stream =
      false;  ///< no body follows; false when `protocol` is set: the tunnel's bytes may follow
};

struct ResponseHead {
  int status = 0;
  HeaderList headers;
};

/// Facts about the connection that a request came on. Lives as long as the connection.
struct PeerInfo {
  std::string address;  ///< "127.0.0.1" or "::1"
  std::uint16_t port = 0;
  bool tls = false;
  std::vector<std::string>
      certificates_der;  ///< peer chain, leaf first; empty: none was sent. Not verified by net.
  std::shared_ptr<const void>
      identity;  ///< what the listener's identity hook made of the certificates
};

/// Our sending half of one exchange, and the credit for the receiving half.
class Stream {
 public:
  /// Queues body bytes (copied). `end` finishes our side.
  virtual void send_data(std::string_view bytes, bool end) noexcept = 0;
  /// The same without a copy of the payload.
  virtual void send_data(SharedBytes bytes, bool end) noexcept = 0;
  virtual void send_trailers(const HeaderList& trailers) noexcept = 0;
  /// Ends the exchange at once (RST_STREAM; HTTP/1.1 closes the connection), drops queued bytes;
  /// on_close follows. A server's begun answer with kOk: END_STREAM where its bytes are just now.
  virtual void reset(Errc cause) noexcept = 0;
  /// Gives back `bytes` of received body as flow-control credit.
  virtual void consume(std::size_t bytes) noexcept = 0;
  /// Body bytes queued and not yet handed to the connection.
  [[nodiscard]] virtual std::size_t unsent_bytes() const noexcept = 0;

 protected:
  ~Stream() = default;
};

/// Server side: how a handler answers.
class ResponseStream : public Stream {
 public:
  /// Status line and fields, once, before any data. 101 turns an HTTP/1.1 exchange into two byte
  /// pipes; on an extended CONNECT it is sent as 200. Hop-by-hop fields are dropped. An answer to
  /// HEAD, 204 and 304 ends here, whatever `end` is.
  virtual void send_head(int status, const HeaderList& headers, bool end) noexcept = 0;
  [[nodiscard]] virtual const PeerInfo& peer() const noexcept = 0;
  /// Graceful GOAWAY (HTTP/1.1: Connection: close) after the streams that run now. For 401 and
  /// drain.
  virtual void close_connection_after() noexcept = 0;

 protected:
  ~ResponseStream() = default;
};

/// What both sides receive.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  /// `end` (often with empty `bytes`) is the last one; it comes exactly once unless the head said
  /// that no body follows.
  virtual void on_data(std::string_view bytes, bool end) noexcept = 0;
  /// Before the on_data that ends the body.
  virtual void on_trailers(HeaderList trailers) noexcept { (void)trailers; }
  /// unsent_bytes() fell below 32 KiB after it had been above 64 KiB: producers may go on.
  virtual void on_drained() noexcept {}
  /// Last call. kOk: both halves ended in order. Otherwise why the exchange broke (kReset, kClosed,
  /// kNotProcessed, …).
  virtual void on_close(Errc cause) noexcept = 0;
};

/// Server side: one per request, owned by the engine until after on_close.
using RequestHandler = StreamHandler;

/// Answers requests. One instance per loop.
class Handler {
 public:
  virtual ~Handler() = default;
  /// A complete request head. Never returns null. `stream` lives until the returned handler's
  /// on_close has returned.
  [[nodiscard]] virtual std::unique_ptr<RequestHandler> on_request(
      RequestHead head, ResponseStream& stream) noexcept = 0;
};

/// Client side: receives one response. Not owned by the engine; must outlive on_close or detach by
/// reset.
class ResponseHandler : public StreamHandler {
 public:
  /// The final head (1xx other than 101 are swallowed). `end`: no body follows.
  virtual void on_head(ResponseHead head, bool end) noexcept = 0;
};

/// Client side: the sending half of a request.
class RequestStream : public Stream {
 public:
  /// Like reset(kCancelled), and the ResponseHandler gets no further call, not even on_close. For
  /// destructors.
  virtual void detach() noexcept = 0;

 protected:
  ~RequestStream() = default;
};

}  // namespace kintsugi::http
