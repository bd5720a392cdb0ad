#include "net/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/memory.h"
#include "net/ticket_keys.h"

namespace kintsugi::net {
namespace {

/// What earlier calls left would be taken for a fault of the next. There is hardly ever any, and
/// emptying what is empty costs as much as a tenth of a record.
void forget_tls_errors() noexcept {
  if (ERR_peek_error() != 0) {
    ERR_clear_error();
  }
}

/// What a server takes of one client (SE-133).
constexpr std::size_t kMostHello = 17 * 1024;  ///< [bytes] 16 KiB and the heads of its records
constexpr std::size_t kTinyRecord = 64;        ///< [bytes]
/// Tiny records: so many, and one for as many bytes that it has got: an acknowledgement, a request.
constexpr std::uint64_t kTinyFree = 16'384, kTinyPerSent = 32;
/// A minute.
constexpr std::uint32_t kKeyUpdates = 10;

}  // namespace

/// OpenSSL's view of a transport: reads what receive() got, writes into the loop's output buffer,
/// never blocks a write.
struct TransportBio {
  static int write(BIO* bio, const char* bytes, int size) {
    auto* transport = static_cast<Transport*>(BIO_get_data(bio));
    transport->queue(bytes, static_cast<std::size_t>(size));
    return size;
  }

  static int read(BIO* bio, char* out, int size) {
    auto* transport = static_cast<Transport*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const std::size_t count = std::min(static_cast<std::size_t>(size), transport->received_.size());
    if (count == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(out, transport->received_.data(), count);
    transport->received_.remove_prefix(count);
    return static_cast<int>(count);
  }

  static long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static int create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }

  static BIO_METHOD* method() {
    static BIO_METHOD* const instance = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kintsugi");
      BIO_meth_set_write(made, write);
      BIO_meth_set_read(made, read);
      BIO_meth_set_ctrl(made, control);
      BIO_meth_set_create(made, create);
      return made;
    }();
    return instance;
  }
};

void Transport::set_tls(SslPtr ssl) {
  ssl_ = std::move(ssl);
  BIO* bio = BIO_new(TransportBio::method());
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_.get(), bio, bio);
  if (SSL_is_server(ssl_.get()) != 0) {
    SSL_set_info_callback(ssl_.get(), on_step);
  }
}

void Transport::on_step(const SSL* ssl, int where, int /*result*/) noexcept {
  auto* self = static_cast<Transport*>(BIO_get_data(SSL_get_rbio(ssl)));
  if ((where & SSL_CB_LOOP) == 0 || SSL_get_state(ssl) != TLS_ST_SR_KEY_UPDATE) {
    return;
  }
  if (const TimePoint now = Clock::now(); now - self->minute_ >= seconds(60)) {
    self->minute_ = now;
    self->key_updates_ = 0;
  }
  ++self->key_updates_;
}

bool Transport::is_flooded_by(std::size_t bytes) noexcept {
  return bytes < kTinyRecord && ++tiny_records_ > kTinyFree + bytes_out_ / kTinyPerSent &&
         SSL_is_server(ssl_.get()) != 0;
}

Transport::Result Transport::refuse(const char* why) {
  broken_ = true;
  error_ = why;
  return Result::kBroken;
}

Transport::Result Transport::receive(bool& full) noexcept {
  full = false;
  received_ = {};
  ssize_t count = 0;
  do {
    count = ::recv(fd_, scratch_.received.data(), IoScratch::kRead, 0);
  } while (count < 0 && errno == EINTR);
  if (count > 0) {
    received_ = {scratch_.received.data(), static_cast<std::size_t>(count)};
    full = received_.size() == IoScratch::kRead;
    bytes_in_ += received_.size();
    return Result::kOk;
  }
  if (count == 0) {
    const bool cut = ssl_ != nullptr && handshaken_ &&
                     (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) == 0;
    if (cut) {
      error_ = "connection ended without TLS close_notify";
      return Result::kBroken;
    }
    return Result::kEnd;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return Result::kBlocked;
  }
  error_ = std::strerror(errno);
  return Result::kBroken;
}

Transport::Result Transport::fault(int ssl_result) noexcept {
  const int code = SSL_get_error(ssl_.get(), ssl_result);
  if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE) {
    return Result::kBlocked;
  }
  if (code == SSL_ERROR_ZERO_RETURN) {
    return Result::kEnd;
  }
  broken_ = true;
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK && SSL_get_verify_mode(ssl_.get()) != SSL_VERIFY_NONE) {
    error_ = take_server_fault(verified);
    ERR_clear_error();
  } else {
    error_ = take_tls_error();
  }
  if (error_.empty()) {
    error_ = "TLS failure";
  }
  return Result::kBroken;
}

Transport::Result Transport::handshake() noexcept {
  if (ssl_ == nullptr || handshaken_) {
    return Result::kOk;
  }
  forget_tls_errors();
  std::optional<SessionScope> scope;
  if (SSL_is_server(ssl_.get()) != 0) {
    scope.emplace();
    const OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl_.get());
    if (bytes_in_ > kMostHello && (state == TLS_ST_BEFORE || state == TLS_ST_SR_CLNT_HELLO)) {
      return refuse("the ClientHello is too long");
    }
  }
  const int result = SSL_do_handshake(ssl_.get());
  scope.reset();
  if (result == 1) {
    handshaken_ = true;
    return Result::kOk;
  }
  return fault(result);
}

Transport::Result Transport::decrypt(std::string_view& plain) noexcept {
  if (ssl_ == nullptr) {
    plain = std::exchange(received_, {});
    return Result::kOk;
  }
  forget_tls_errors();
  std::size_t total = 0;
  Result result = Result::kOk;
  // Nothing is left over: with read-ahead off, OpenSSL holds at most one unfinished record.
  while (!received_.empty() || SSL_pending(ssl_.get()) > 0) {
    std::size_t count = 0;
    const int read = SSL_read_ex(ssl_.get(), scratch_.plain.data() + total,
                                 scratch_.plain.size() - total, &count);
    if (read != 1) {
      result = fault(read);
      if (result == Result::kBlocked) {
        result = Result::kOk;
      }
      break;
    }
    total += count;
    if (is_flooded_by(count)) {
      result = refuse("too many tiny records");
      break;
    }
  }
  if (key_updates_ > kKeyUpdates) {
    result = refuse("too many KeyUpdates");
  }
  received_ = {};
  plain = {scratch_.plain.data(), total};
  return result;
}

void Transport::queue(const char* bytes, std::size_t size) noexcept {
  if (scratch_.out_size + size > scratch_.out.size()) {
    held_.append(scratch_.out.data(), scratch_.out_size);
    scratch_.out_size = 0;
  }
  if (!held_.empty() || size > scratch_.out.size()) {
    held_.append(scratch_.out.data(), scratch_.out_size);
    scratch_.out_size = 0;
    held_.append(bytes, size);
    return;
  }
  std::memcpy(scratch_.out.data() + scratch_.out_size, bytes, size);
  scratch_.out_size += size;
}

void Transport::put(std::string_view plain) noexcept {
  if (ssl_ == nullptr) {
    queue(plain.data(), plain.size());
    return;
  }
  forget_tls_errors();
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written);
  if (result != 1 || written != plain.size()) {
    // The output buffer never refuses, so this is a dead session.
    (void)fault(result);
    broken_ = true;
  }
}

void Transport::begin_send() noexcept {
  if (!blocked_ && !held_.empty() && held_.size() <= IoScratch::kRecord && scratch_.out_size == 0) {
    std::memcpy(scratch_.out.data(), held_.data(), held_.size());
    scratch_.out_size = held_.size();
    give_back(held_);
  }
}

Transport::Result Transport::send() noexcept {
  const std::uint64_t before = scratch_.writes;
  const Result result = send_now();
  if (!scratch_.flushing) {
    scratch_.writes_outside_flush += scratch_.writes - before;
  }
  return result;
}

Transport::Result Transport::send_now() noexcept {
  if (blocked_) {
    (void)hold();
    return Result::kBlocked;
  }
  // Either the held bytes or the loop's buffer, held ones first: queue() never mixes them up.
  const bool from_held = !held_.empty();
  if (from_held) {
    (void)hold();
  }
  std::string_view rest = from_held ? std::string_view(held_)
                                    : std::string_view(scratch_.out.data(), scratch_.out_size);
  while (!rest.empty()) {
    ++scratch_.writes;
    const ssize_t count = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
      bytes_out_ += static_cast<std::uint64_t>(count);
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      blocked_ = true;
      break;
    }
    error_ = std::strerror(errno);
    scratch_.out_size = 0;
    give_back(held_);
    return Result::kBroken;
  }
  if (from_held) {
    if (rest.empty()) {
      give_back(held_);
    } else {
      held_.erase(0, held_.size() - rest.size());
    }
  } else if (!rest.empty()) {
    held_.assign(rest);
  }
  scratch_.out_size = 0;
  if (broken_) {
    return Result::kBroken;
  }
  return blocked_ ? Result::kBlocked : Result::kOk;
}

bool Transport::hold() noexcept {
  if (scratch_.out_size != 0) {
    held_.append(scratch_.out.data(), scratch_.out_size);
    scratch_.out_size = 0;
  }
  return !held_.empty();
}

bool Transport::quiet() const noexcept {
  char byte = 0;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

void Transport::finish() noexcept {
  if (fd_ < 0) {
    return;
  }
  if (ssl_ != nullptr && handshaken_ && !broken_ && !end_said_) {
    end_said_ = true;
    forget_tls_errors();
    (void)SSL_shutdown(ssl_.get());
    forget_tls_errors();
  }
  (void)hold();
  (void)send_now();
  if (held_.empty()) {
    ::shutdown(fd_, SHUT_WR);
  }
}

void Transport::close() noexcept {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
  give_back(held_);
}

bool Transport::alpn_is(std::string_view protocol) const noexcept {
  if (ssl_ == nullptr) {
    return false;
  }
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return name != nullptr && std::string_view(reinterpret_cast<const char*>(name), size) == protocol;
}

bool Transport::alpn_negotiated() const noexcept { return alpn_is("h2") || alpn_is("http/1.1"); }

std::vector<std::string> Transport::peer_certificates_der() const {
  std::vector<std::string> result;
  if (ssl_ == nullptr) {
    return result;
  }
  const auto add = [&result](X509* certificate) {
    unsigned char* der = nullptr;
    const int size = i2d_X509(certificate, &der);
    if (size > 0) {
      result.emplace_back(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
      OPENSSL_free(der);
    }
  };
  X509* leaf = SSL_get0_peer_certificate(ssl_.get());
  if (leaf == nullptr) {
    return result;
  }
  add(leaf);
  // A server's chain leaves the leaf out, a client's begins with it.
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl_.get());
  for (int i = SSL_is_server(ssl_.get()) != 0 ? 0 : 1; i < sk_X509_num(chain); ++i) {
    add(sk_X509_value(chain, i));
  }
  return result;
}

void tune_tcp(int fd) noexcept {
  const auto set = [fd](int level, int option, int value) {
    (void)::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

}  // namespace kintsugi::net
