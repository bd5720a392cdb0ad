#include "net/internal/client_connection.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "net/internal/dialer.h"

namespace kintsugi::net {

Expected<SslPtr> make_client_ssl(const TlsContext& context, const Url& url, bool http2,
                                 TlsSessionSlot& slot) {
  static constexpr unsigned char kBoth[] = "\x02h2\x08http/1.1";
  static constexpr unsigned char kHttp1[] = "\x08http/1.1";
  ERR_clear_error();
  SslPtr ssl(SSL_new(context.native()));
  if (ssl == nullptr) {
    return fail(Errc::kTls, take_tls_error());
  }
  SSL_set_connect_state(ssl.get());
  const bool offer2 = http2 && context.params().http2;
  // 0 is success here.
  bool ok = SSL_set_alpn_protos(ssl.get(), offer2 ? kBoth : kHttp1,
                                offer2 ? sizeof kBoth - 1 : sizeof kHttp1 - 1) == 0;
  const std::string& configured = context.params().server_name;
  const std::string& name = configured.empty() ? url.host : configured;
  if (numeric_address(name, 0)) {
    ok = ok && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), name.c_str()) == 1;
  } else {
    ok = ok && SSL_set_tlsext_host_name(ssl.get(), name.c_str()) == 1 &&
         SSL_set1_host(ssl.get(), name.c_str()) == 1;
  }
  ok = ok && SSL_set_ex_data(ssl.get(), tls_session_slot_index(), &slot) == 1;
  if (!ok) {
    return fail(Errc::kTls, "server name \"" + name + "\" cannot be used: " + take_tls_error());
  }
  if (slot.get() != nullptr) {
    (void)SSL_set_session(ssl.get(), slot.get());  // a session that does not fit is ignored
    ERR_clear_error();
  }
  return ssl;
}

ClientConnection::ClientConnection(Loop& loop, int fd, ClientConnectionOwner& owner,
                                   QueuedStream* the_exclusive)
    : Connection(loop, fd),
      dedicated(the_exclusive != nullptr),
      exclusive(the_exclusive),
      owner_(&owner),
      last_active_(loop.now()) {}

void ClientConnection::start(SslPtr ssl) {
  started_at_ = loop_.now();
  if (ssl != nullptr) {
    timer_.start(owner_->allow(owner_->params().tls_timeout), [this] { shut(Errc::kDeadline); });
  }
  begin(std::move(ssl));
}

void ClientConnection::on_established() noexcept {
  const UpstreamParams& params = owner_->params();
  http2_ = transport_.ssl() != nullptr ? transport_.alpn_is("h2") || (params.prior_knowledge &&
                                                                      !transport_.alpn_negotiated())
                                       : params.prior_knowledge;
  http2_ = http2_ && !dedicated && !proxy_;
  if (SSL* ssl = transport_.ssl(); measures_ && ssl != nullptr) {
    const bool once = SSL_version(ssl) >= TLS1_3_VERSION || SSL_session_reused(ssl) == 1;
    owner_->on_measured((loop_.now() - started_at_) / (once ? 1 : 2));
  }
  const http::SessionLimits limits = owner_->limits();
  std::unique_ptr<http::ClientSession> made =
      http2_   ? http::make_h2_client(*this, limits)
      : proxy_ ? http::make_forwarding_client(*this, limits, *std::move(proxy_))
               : http::make_h1_client(*this, limits);
  client_ = made.get();
  set_session(std::move(made));
  last_active_ = last_read_ = loop_.now();
  check_in(std::min(params.ping_after, params.idle_close));
  owner_->on_established(*this);
}

void ClientConnection::on_bytes(std::string_view bytes) noexcept {
  feed(bytes);
  if (!fed_) {
    fed_ = true;
    if (owner_ != nullptr) {
      owner_->on_heard(*this);
    }
  }
}

void ClientConnection::on_flushed() noexcept {
  if (stream_count() != 0) {
    last_active_ = loop_.now();
  }
  if (owner_ != nullptr) {
    owner_->on_progress();
  }
}

void ClientConnection::on_dead(Errc cause, bool handshake) noexcept {
  if (owner_ != nullptr) {
    owner_->on_end(*this, cause, handshake);
  }
}

void ClientConnection::check_in(Duration delay) {
  const Duration wait = std::max<Duration>(delay, milliseconds(1));
  timer_.start(wait, [this] { check_liveness(); });
}

void ClientConnection::check_liveness() noexcept {
  const UpstreamParams& params = owner_->params();
  const Duration ping_timeout = owner_->allow(params.ping_timeout);
  const TimePoint now = loop_.now();
  if (stream_count() == 0) {
    ping_outstanding_ = false;
    const Duration idle = now - last_active_;
    if (idle >= params.idle_close || client_->draining()) {
      shut(Errc::kClosed);
      return;
    }
    check_in(owner_->jitter(std::min(params.ping_after, params.idle_close - idle)));
    return;
  }
  last_active_ = now;
  if (!http2_) {
    check_in(owner_->jitter(params.ping_after));
    return;
  }
  if (ping_outstanding_ && last_read_ >= ping_sent_) {
    ping_outstanding_ = false;
  }
  if (ping_outstanding_) {
    const Duration waited = now - ping_sent_;
    if (waited >= ping_timeout) {
      ping_lost_ = true;
      shut(Errc::kReset);
      return;
    }
    check_in(ping_timeout - waited);
    return;
  }
  const Duration silence = now - last_read_;
  if (silence < params.ping_after) {
    check_in(params.ping_after - silence);
    return;
  }
  ping_outstanding_ = true;
  ping_sent_ = now;
  client_->ping();
  loop_.mark_dirty(*this);
  check_in(std::min(ping_timeout, params.ping_after));
}

}  // namespace kintsugi::net
