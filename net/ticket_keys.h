#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/secret.h"
#include "base/time.h"
#include "net/tls.h"

namespace kintsugi::net {

/// What a server seals its session tickets with. Keys follow from secrets (HKDF, RFC 5869) and the
/// hour, so that processes with equal secrets, and a process after its restart, resume each other's
/// sessions, and no key seals for longer than an hour. A ticket holds the client's certificate: who
/// has a secret can pass for any client. Tickets of TLS 1.2, which would give away what was
/// recorded, are sealed with a secret that the process makes for itself and never tells.
/// Threads: any.
class TicketKeys {
 public:
  static constexpr std::int64_t kInterval = 3'600;  ///< [s] a key seals
  static constexpr std::int64_t kLifetime = 7'200;  ///< [s] a ticket is good

  struct Key {
    std::array<unsigned char, 16> name;  ///< stands in the ticket, says nothing
    std::array<unsigned char, 32> cipher, mac;
    Key() noexcept : name(), cipher(), mac() {}
    Key(const Key&) = default;
    Key& operator=(const Key&) = default;
    ~Key();  ///< overwrites what it was
  };

  TicketKeys();
  /// The first seals, all open; none: the process's own. More than a few cost time.
  void set(std::vector<Secret> secrets);

  /// @param now seconds since 1970
  [[nodiscard]] Key sealing(std::int64_t now, bool tls13);
  /// The key of this name, if tickets that it sealed can still be good. The clocks of replicas may
  /// differ by an hour.
  [[nodiscard]] std::optional<Key> opening(std::int64_t now, std::span<const unsigned char> name);

 private:
  void derive(std::int64_t now);

  std::mutex mutex_;
  std::vector<Secret> secrets_;  // the process's own is the last one
  std::int64_t epoch_ = -1;      // of keys_
  std::vector<Key> keys_;        // kEpochs of each secret, first the one that seals
};

/// The context seals its tickets with these keys instead of one of its own that nobody else knows.
/// For a context that nobody uses yet.
void use_ticket_keys(TlsContext& context, std::shared_ptr<TicketKeys> keys);

/// While it lives, OpenSSL leaves public keys alone in the certificates that it reads out of
/// sessions: looking for a decoder took 0.1 ms for each, and nobody wants that key, as the holder
/// proved to have its private half when the session began. For handshakes of contexts that were
/// made before, in library_context(); nothing else may run meanwhile. Threads: any.
class SessionScope {
 public:
  SessionScope() noexcept;
  ~SessionScope() { OSSL_LIB_CTX_set0_default(before_); }
  SessionScope(const SessionScope&) = delete;
  SessionScope& operator=(const SessionScope&) = delete;

 private:
  OSSL_LIB_CTX* before_;
};
/// What everything of OpenSSL is in, also under a SessionScope.
[[nodiscard]] OSSL_LIB_CTX* library_context() noexcept;

}  // namespace kintsugi::net
