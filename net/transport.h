#pragma once

#include <openssl/ssl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "net/internal/io_scratch.h"
#include "net/internal/tls_internal.h"

namespace kintsugi::net {

/// One non-blocking stream socket, with or without TLS, working in the loop's shared buffers
/// (PERF-211). Cipher text goes through memory: one recv per turn feeds OpenSSL until it wants
/// more, one send per turn takes every record that was made, so OpenSSL itself never blocks. Only
/// bytes that the kernel refused stay here. Threads: its loop. The address must not change while
/// TLS is on.
class Transport {
 public:
  enum class Result : std::uint8_t {
    kOk,
    kBlocked,  ///< the kernel has nothing, or takes nothing
    kEnd,      ///< orderly end of the peer's side
    kBroken,   ///< reset, or a TLS fault: see error()
  };

  /// Takes the descriptor and closes it in the destructor.
  Transport(IoScratch& scratch, int fd) noexcept : scratch_(scratch), fd_(fd) {}
  ~Transport() { close(); }
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] SSL* ssl() const noexcept { return ssl_.get(); }
  /// Switches TLS on; the SSL already has its accept or connect state.
  void set_tls(SslPtr ssl);

  /// One recv(2) of at most IoScratch::kRead. `full` tells whether the buffer was filled.
  [[nodiscard]] Result receive(bool& full) noexcept;
  /// One handshake step with what receive() got. kOk: done. Output waits for send().
  [[nodiscard]] Result handshake() noexcept;
  /// Everything receive() got as plain text, valid until the next call into any transport of the
  /// loop.
  [[nodiscard]] Result decrypt(std::string_view& plain) noexcept;

  /// Queues at most room() bytes, as records of 16 KiB and a rest.
  void put(std::string_view plain) noexcept;
  /// Where put() wants its bytes when they are made in place.
  [[nodiscard]] std::span<char> unsent() noexcept { return scratch_.unsent; }
  /// What else can be put in this turn [bytes].
  [[nodiscard]] std::size_t room() const noexcept {
    constexpr std::size_t kOverhead = 512;  // of all records
    const std::size_t used = scratch_.out_size + kOverhead;
    return blocked_ || used >= scratch_.out.size()
               ? 0
               : std::min(scratch_.unsent.size(), scratch_.out.size() - used);
  }
  /// Opens the write phase: what was held back goes first.
  void begin_send() noexcept;
  /// One send(2) of what is queued, in the flush pass only (PERF-101). kBlocked: the rest is kept,
  /// wait for writable().
  [[nodiscard]] Result send() noexcept;
  /// Keeps queued output until the next write phase. To be called at the end of a read callback.
  /// True: there is some.
  [[nodiscard]] bool hold() noexcept;
  /// The kernel takes bytes again.
  void writable() noexcept { blocked_ = false; }
  [[nodiscard]] bool blocked() const noexcept { return blocked_; }
  [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }

  /// Nothing has come that receive() has not got, not even the peer's end. Cost: a system call.
  [[nodiscard]] bool quiet() const noexcept;

  /// Queues the TLS end message and tries to send; then closes our sending side. The peer may still
  /// send.
  void finish() noexcept;
  void close() noexcept;

  /// What broke, "" for an orderly end.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  [[nodiscard]] bool alpn_is(std::string_view protocol) const noexcept;
  [[nodiscard]] bool alpn_negotiated() const noexcept;
  /// Leaf first; empty without TLS or certificate.
  [[nodiscard]] std::vector<std::string> peer_certificates_der() const;

  [[nodiscard]] std::uint64_t bytes_in() const noexcept { return bytes_in_; }
  [[nodiscard]] std::uint64_t bytes_out() const noexcept { return bytes_out_; }

 private:
  friend struct TransportBio;
  /// OpenSSL's word of a step of the handshake, or of a KeyUpdate.
  static void on_step(const SSL* ssl, int where, int result) noexcept;
  /// A record of so many bytes has come. True: there are too many tiny ones (SE-133).
  [[nodiscard]] bool is_flooded_by(std::size_t bytes) noexcept;
  [[nodiscard]] Result refuse(const char* why);
  [[nodiscard]] Result fault(int ssl_result) noexcept;
  void queue(const char* bytes, std::size_t size) noexcept;
  [[nodiscard]] Result send_now() noexcept;

  IoScratch& scratch_;
  int fd_;
  bool blocked_ = false;
  bool handshaken_ = false;
  bool broken_ = false;
  bool end_said_ = false;
  SslPtr ssl_;
  std::string_view received_;
  std::string held_;  // cipher text (or plain text without TLS) that the kernel did not take yet
  std::string error_;
  std::uint64_t bytes_in_ = 0, bytes_out_ = 0;
  std::uint64_t tiny_records_ = 0;
  TimePoint minute_{};
  std::uint32_t key_updates_ = 0;  // of a client, in this minute
};

/// TCP_NODELAY, keep-alive after 30 s, TCP_USER_TIMEOUT 30 s. Best effort: none of them decides
/// about correctness.
void tune_tcp(int fd) noexcept;

}  // namespace kintsugi::net
