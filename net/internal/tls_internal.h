#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "base/error.h"

namespace kintsugi::net {

/// The newest session ticket of one server, for resumption. Threads: its loop. Must outlive the
/// SSLs that point to it.
class TlsSessionSlot {
 public:
  TlsSessionSlot() = default;
  TlsSessionSlot(const TlsSessionSlot&) = delete;
  TlsSessionSlot& operator=(const TlsSessionSlot&) = delete;
  ~TlsSessionSlot() { put(nullptr); }
  /// Takes ownership.
  void put(SSL_SESSION* session) noexcept {
    SSL_SESSION_free(session_);
    session_ = session;
  }
  [[nodiscard]] SSL_SESSION* get() const noexcept { return session_; }

 private:
  SSL_SESSION* session_ = nullptr;
};

/// ex_data index of a SSL's TlsSessionSlot*.
[[nodiscard]] int tls_session_slot_index();

/// The oldest entry of this thread's OpenSSL error queue as text, "" when empty; clears the queue.
[[nodiscard]] std::string take_tls_error();

/// Why a server's certificate does not hold, of the handshake that has just failed on this thread:
/// OpenSSL's words for `cause`, of a wrong name with those that it is for, of a wrong time with it.
[[nodiscard]] std::string take_server_fault(long cause);

struct SslDeleter {
  void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;

}  // namespace kintsugi::net
