#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"
#include "net/loop.h"
#include "net/tls.h"

namespace kintsugi::net {

/// One connection to a server of another protocol than HTTP, as bytes: dialled, with TLS or
/// without, on a loop. Reads in the turn, writes in the flush pass. It is not made again when it
/// ends. Limits: `max_queued` bytes wait to be written; 64 KiB are read a turn.
/// Threads: its loop. Lifetime: ends in silence when it is destroyed, which no callback may do;
/// Loop::defer() may.
class ByteStream {
 public:
  struct Params {
    std::string host;  ///< name or numeric address; also SNI and what the certificate is for
    std::uint16_t port = 0;
    std::string address;                    ///< where to connect, `host` when empty
    std::shared_ptr<const TlsContext> tls;  ///< of a client; null: plain text
    Duration open_deadline = seconds(10);   ///< name, connect and handshake together
    std::size_t max_queued = 16U << 20U;    ///< [bytes]
  };
  struct Callbacks {
    std::function<void()> on_open;
    std::function<void(std::string_view)> on_bytes;  ///< valid during the call
    /// The last call. @param error  "" when the peer ended it in order, or close() did.
    std::function<void(const std::string& error)> on_closed;
    std::function<void()> on_written;  ///< less waits than before; may be empty
  };

  /// Dials. Callbacks come in later turns.
  ByteStream(Loop& loop, Params params, Callbacks callbacks);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  [[nodiscard]] bool is_open() const noexcept;
  [[nodiscard]] bool is_closed() const noexcept;
  /// Queues bytes, also before it is open. False: closed, or they do not fit; nothing is taken.
  [[nodiscard]] bool write(std::string_view bytes);
  /// What waits, here or for the kernel [bytes].
  [[nodiscard]] std::size_t queued() const noexcept;
  /// Ends it: what waits is sent for a second at most, then on_closed("") comes in a later turn.
  void close();

 private:
  class Link;
  std::unique_ptr<Link> link_;
};

}  // namespace kintsugi::net
