#include "net/internal/pool.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <utility>

#include "http/wire.h"
#include "net/certificate_names.h"
#include "net/congestion.h"
#include "net/proxy_rules.h"

namespace kintsugi::net {
namespace {

/// Another connection may take the request.
constexpr bool may_pass(Errc cause) noexcept {
  return cause == Errc::kOverloaded || cause == Errc::kNotProcessed;
}

/// Whoever asks for something that may be repeated does so (RFC 9110, section 9.2.2).
bool may_repeat(std::string_view method) noexcept {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

/// The way to the server, if it leads over a proxy: that of its credential, else that of the
/// environment.
Expected<const ServerCredential::Proxy*> proxy_of(const Origin& origin) {
  const ServerCredential* own = origin.tls != nullptr ? &credential_of(*origin.tls) : nullptr;
  if (own != nullptr && (own->own_way || !own->proxy.host.empty())) {
    return own->proxy.host.empty() ? nullptr : &own->proxy;
  }
  return environment_proxies().pick(origin.params.url);
}

}  // namespace

Pool::Pool(Origin& origin, UpstreamClass kind)
    : origin_(origin),
      loop_(origin.loop),
      kind_(kind),
      queue_timer_(loop_),
      failed_timer_(loop_),
      dial_timer_(loop_),
      hold_timer_(loop_) {
  origin.pools.push_back(this);
  const UpstreamParams& params = origin.params;
  if (!params.prior_knowledge && (params.url.scheme == "http" || !params.http2)) {
    limit_ = 1;
    limit_known_ = true;
  }
}

Pool::~Pool() {
  closing_ = true;
  dials_.clear();
  while (!connections_.empty()) {
    connections_.back()->shut(Errc::kCancelled);
  }
  for (StreamList* list : {&queue_, &exclusive_, &failed_}) {
    while (QueuedStream* stream = list->pop_front()) {
      stream->close_unsent(Errc::kCancelled);
    }
  }
}

Duration Pool::jitter(Duration duration) noexcept { return origin_.jitter(duration); }

std::size_t Pool::room(const ClientConnection& connection) const noexcept {
  if (!connection.ready() || connection.dedicated) {
    return 0;
  }
  std::size_t free = connection.session()->free_slots();
  if (share_ != kUnshared) {
    free = std::min(free, share_ - std::min(share_, connection.stream_count()));
  }
  if (connection.heard() || !limit_known_) {
    return free;
  }
  // Before its SETTINGS: what this origin announced the last time.
  const std::size_t used = connection.stream_count();
  return std::min(free, used < limit_ ? limit_ - used : 0);
}

http::RequestStream& Pool::open(const http::RequestHead& head, http::ResponseHandler& handler) {
  ++counters_.requests;
  const bool exclusive = !head.protocol.empty();
  bool refused = false;
  if (!exclusive && queue_.empty()) {
    spread_if_far(1);
    for (const auto& connection : connections_) {
      if (room(*connection) == 0) {
        continue;
      }
      Expected<http::RequestStream*> opened = connection->session()->open(head, handler);
      if (opened) {
        if (!may_repeat(head.method)) {
          connection->look_first();
        }
        connection->output_ready();
        return **opened;
      }
      if (!may_pass(opened.error().code())) {
        refused = true;
        break;
      }
    }
  }
  auto* stream = new QueuedStream(loop_, *this, head, handler, exclusive);
  StreamList& list = exclusive ? exclusive_ : queue_;
  list.push_back(*stream);
  if (refused || !http::request_fault(head).empty()) {
    fail_later(*stream, Errc::kBadRequest);
    return *stream;
  }
  if (closing_ || list.size() > params().max_queued) {
    fail_later(*stream, closing_ ? Errc::kCancelled : Errc::kOverloaded);
    return *stream;
  }
  const Duration wait = origin_.may_restart() && !exclusive
                            ? std::min(params().queue_timeout, params().restart_wait)
                            : params().queue_timeout;
  stream->deadline = loop_.now() + origin_.allow(wait);
  if (exclusive) {
    start_dial(stream);
  } else {
    if (queue_.size() == 1) {
      arm_queue_timer();
    }
    dial_as_needed();
  }
  return *stream;
}

void Pool::withdraw(QueuedStream& stream) noexcept {
  if (stream.failure != Errc::kOk) {
    failed_.remove(stream);
    return;
  }
  if (!stream.exclusive()) {
    queue_.remove(stream);
    return;
  }
  exclusive_.remove(stream);
  for (const auto& dial : dials_) {
    if (dial->exclusive == &stream) {
      (void)take(*dial);  // one whose callback runs is not on the list any more
      return;
    }
  }
  for (const auto& connection : connections_) {
    if (connection->exclusive == &stream) {
      connection->exclusive = nullptr;
      connection->shut(Errc::kCancelled);
      return;
    }
  }
}

void Pool::fail_later(QueuedStream& stream, Errc cause) noexcept {
  withdraw(stream);
  stream.failure = cause;
  failed_.push_back(stream);
  if (failed_.size() == 1) {
    failed_timer_.start(Duration::zero(), [this] { report_failed(); });
  }
}

void Pool::report_failed() {
  StreamList list = std::exchange(failed_, {});
  while (QueuedStream* stream = list.pop_front()) {
    ++counters_.failed;
    stream->close_unsent(stream->failure);
  }
}

void Pool::dispatch() {
  spread_if_far(0);
  for (std::size_t i = 0; i < connections_.size() && !queue_.empty(); ++i) {
    ClientConnection& connection = *connections_[i];
    bool used = false;
    while (!queue_.empty() && room(connection) > 0) {
      QueuedStream* stream = queue_.pop_front();
      const bool look = !may_repeat(stream->method());
      const Errc result = stream->attach(*connection.session());
      if (result == Errc::kOk) {
        used = true;
        if (look) {
          connection.look_first();
        }
        continue;
      }
      queue_.push_front(*stream);
      if (may_pass(result)) {
        break;
      }
      fail_later(*stream, result);  // nobody behind it waits for what no connection takes
    }
    if (used) {
      connection.output_ready();
    }
  }
  if (queue_.empty()) {
    queue_timer_.cancel();
  }
}

bool Pool::arriving() const noexcept {
  return !dials_.empty() ||
         std::any_of(connections_.begin(), connections_.end(), [](const auto& connection) {
           return connection->stage() == Connection::Stage::kHandshake ||
                  (connection->http2() && !connection->heard());
         });
}

bool Pool::probes() const noexcept {
  return params().restart_window > Duration::zero() && origin_.failures_in_a_row != 0;
}

void Pool::wake() noexcept {
  if (!closing_ && (!queue_.empty() || probes())) {
    dial_timer_.start(Duration::zero(), [this] { dial_as_needed(); });
  }
}

void Pool::dial_later() {
  if (!queue_.empty() || probes()) {
    dial_timer_.start(origin_.dial_pause(), [this] { dial_as_needed(); });
  }
}

// Nobody waits: one dial of the origin at a time finds out when it is back.
void Pool::probe() {
  if (!probes()) {
    return;
  }
  const bool busy = std::any_of(origin_.pools.begin(), origin_.pools.end(),
                                [](const Pool* pool) { return pool->arriving(); });
  if (!busy && origin_.may_dial()) {
    start_dial(nullptr);
  } else {
    dial_later();
  }
}

void Pool::retire_connections() noexcept {
  std::vector<ClientConnection*> all;
  for (const auto& connection : connections_) {
    if (!connection->dedicated) {
      all.push_back(connection.get());
    }
  }
  for (ClientConnection* connection : all) {
    if (connection->stage() == Connection::Stage::kHandshake) {
      connection->shut(Errc::kCancelled);
    } else {
      connection->drain();
    }
  }
}

// In order of arrival, so deadlines stay in order.
void Pool::shorten_waits() {
  const TimePoint latest = loop_.now() + origin_.allow(params().restart_wait);
  for (QueuedStream* stream = queue_.front(); stream != nullptr; stream = stream->next) {
    stream->deadline = std::min(stream->deadline, latest);
  }
  arm_queue_timer();
}

void Pool::dial_as_needed() {
  if (closing_) {
    return;
  }
  if (queue_.empty()) {
    probe();
    return;
  }
  std::size_t active = 0, arriving = 0;
  for (const auto& dial : dials_) {
    arriving += dial->exclusive == nullptr ? 1U : 0U;
  }
  active = arriving;
  std::size_t expected = arriving * limit_;
  for (const auto& connection : connections_) {
    if (connection->dedicated) {
      continue;
    }
    if (connection->stage() == Connection::Stage::kHandshake) {
      ++active;
      ++arriving;
      expected += limit_;
    } else if (connection->ready()) {
      ++active;
      expected += room(*connection);
      arriving += connection->http2() && !connection->heard() ? 1U : 0U;
    }
  }
  while (queue_.size() > expected && active < params().max_connections) {
    if (!limit_known_ && arriving != 0) {
      return;
    }
    if (!origin_.may_dial()) {
      dial_later();
      return;
    }
    start_dial(nullptr);
    ++active;
    ++arriving;
    expected += limit_;
  }
}

void Pool::start_dial(QueuedStream* exclusive) {
  Dial& dial = *dials_.emplace_back(std::make_unique<Dial>());
  dial.exclusive = exclusive;
  Expected<const ServerCredential::Proxy*> way = proxy_of(origin_);
  dial.by_proxy = !way || *way != nullptr;
  if (dial.by_proxy && way) {
    dial.proxy = **way;
  } else if (!way) {
    dial.fault = std::string(way.error().message());  // nobody has the name "", later
  }
  std::vector<SocketAddress> addresses =
      dial.by_proxy ? std::vector<SocketAddress>() : origin_.fresh_addresses();
  if (!addresses.empty()) {
    connect(dial, std::move(addresses));
    return;
  }
  const Url& url = params().url;
  dial.lookup = std::make_unique<Lookup>(loop_, dial.by_proxy ? dial.proxy.host : url.host,
                                         dial.by_proxy ? dial.proxy.port : url.port,
                                         [this, &dial](Expected<std::vector<SocketAddress>> found) {
                                           on_addresses(dial, std::move(found));
                                         });
}

void Pool::on_addresses(Dial& dial, Expected<std::vector<SocketAddress>> addresses) {
  if (!addresses) {
    QueuedStream* exclusive = dial.exclusive;
    const std::unique_ptr<Dial> ended = take(dial);
    on_connect_failure(ended->fault.empty() ? std::move(addresses).error()
                                            : Error(Errc::kUnreachable, ended->fault),
                       exclusive);
    return;
  }
  if (dial.by_proxy) {
    connect(dial, std::move(*addresses));
    return;
  }
  origin_.set_addresses(std::move(*addresses));
  connect(dial, origin_.fresh_addresses());
}

void Pool::connect(Dial& dial, std::vector<SocketAddress> addresses) {
  dial.connect = std::make_unique<Connect>(
      loop_, std::move(addresses), origin_.allow(params().connect_timeout),
      [this, &dial](Expected<int> fd) { on_connected(dial, std::move(fd)); },
      [this, by_proxy = dial.by_proxy](const SocketAddress& address, bool connected) {
        if (!by_proxy) {
          origin_.note_address(address, connected);
        }
      });
}

void Pool::dig(Dial& dial, int fd) {
  const Url& url = params().url;
  const bool ipv6 = url.host.find(':') != std::string::npos;
  const std::string target =
      (ipv6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
  dial.tunnel = std::make_unique<Tunnel>(loop_, fd, target, dial.proxy.authorization,
                                         origin_.allow(params().connect_timeout),
                                         [this, &dial](Expected<int> through) {
                                           dial.by_proxy = false;
                                           dial.through = true;
                                           on_connected(dial, std::move(through));
                                         });
}

std::unique_ptr<Pool::Dial> Pool::take(Dial& dial) {
  const auto position = std::find_if(dials_.begin(), dials_.end(),
                                     [&dial](const auto& item) { return item.get() == &dial; });
  std::unique_ptr<Dial> taken = std::move(*position);
  dials_.erase(position);
  return taken;
}

void Pool::on_connected(Dial& dial, Expected<int> fd) {
  const bool forwarded = params().url.scheme == "http" && !params().prior_knowledge;
  if (fd && dial.by_proxy && !forwarded) {
    dig(dial, *fd);
    return;
  }
  const std::unique_ptr<Dial> ended = take(dial);
  if (!fd) {
    on_connect_failure(std::move(fd).error(), dial.exclusive);
    return;
  }
  auto made = std::make_unique<ClientConnection>(loop_, *fd, *this, ended->exclusive);
  if (ended->by_proxy) {
    made->forward({params().url.authority(), ended->proxy.authorization});
  } else if (ended->through) {
    made->measure();
  } else {
    origin_.round_trip.note(kernel_round_trip(*fd));
  }
  SslPtr ssl;
  if (params().url.scheme == "https") {
    Expected<SslPtr> prepared = fail(Errc::kTls, "no TLS configuration");
    if (origin_.tls != nullptr) {
      const bool http2 = params().http2 && dial.exclusive == nullptr;
      prepared = make_client_ssl(*origin_.tls, params().url, http2, *origin_.session);
    }
    if (!prepared) {
      on_connect_failure(std::move(prepared).error(), dial.exclusive);
      return;
    }
    ssl = std::move(*prepared);
  }
  ClientConnection& connection = *made;
  connections_.push_back(std::move(made));
  connection.start(std::move(ssl));
  spread_if_far(0);
}

void Pool::on_connect_failure(Error error, QueuedStream* exclusive) {
  origin_.note_failure(std::string(error.message()));
  if (exclusive != nullptr) {
    fail_later(*exclusive, error.code());
    return;
  }
  const bool hope =
      std::any_of(dials_.begin(), dials_.end(),
                  [](const auto& dial) { return dial->exclusive == nullptr; }) ||
      std::any_of(connections_.begin(), connections_.end(), [](const auto& connection) {
        return !connection->dedicated && (connection->ready() || connection->session() == nullptr);
      });
  if (origin_.may_restart() && error.code() != Errc::kTls) {
    shorten_waits();
  } else {
    while (!hope && !queue_.empty()) {
      fail_later(*queue_.front(), error.code());
    }
  }
  if (queue_.empty()) {
    queue_timer_.cancel();
  }
  dial_later();
}

void Pool::on_established(ClientConnection& connection) noexcept {
  ++counters_.opened;
  if (SSL* const ssl = connection.transport().ssl(); ssl != nullptr) {
    origin_.certificate_end = certificate_end(SSL_get0_peer_certificate(ssl));
  }
  if (connection.dedicated) {
    QueuedStream* stream = std::exchange(connection.exclusive, nullptr);
    if (stream == nullptr) {
      return;
    }
    exclusive_.remove(*stream);
    if (const Errc result = stream->attach(*connection.session()); result != Errc::kOk) {
      exclusive_.push_back(*stream);
      fail_later(*stream, result);
    }
    return;
  }
  if (!connection.http2()) {
    origin_.note_success();  // the server speaks second
    limit_ = 1;
    limit_known_ = true;
  }
  dispatch();
  dial_as_needed();
}

void Pool::on_heard(ClientConnection& connection) noexcept {
  origin_.note_success();
  if (connection.dedicated) {
    return;
  }
  limit_ = std::max<std::size_t>(connection.session()->slot_limit(), 1);
  limit_known_ = true;
}

void Pool::on_progress() noexcept {
  if (!queue_.empty()) {
    dispatch();
    dial_as_needed();
  }
}

void Pool::on_end(ClientConnection& connection, Errc cause, bool handshake) noexcept {
  const auto position =
      std::find_if(connections_.begin(), connections_.end(),
                   [&connection](const auto& item) { return item.get() == &connection; });
  std::shared_ptr<ClientConnection> dead(std::move(*position));
  connections_.erase(position);
  connection.abandon();
  loop_.defer([dead] {});
  if (closing_) {
    return;
  }
  QueuedStream* exclusive = std::exchange(connection.exclusive, nullptr);
  const std::string& text = connection.transport().error();
  if (handshake && cause != Errc::kCancelled) {
    if (cause == Errc::kTls) {
      count_tls_failure(connection);
    }
    const Errc code = cause == Errc::kTls ? Errc::kTls : Errc::kUnreachable;
    const char* fallback =
        cause == Errc::kDeadline ? "TLS handshake timed out" : "connection ended in the handshake";
    on_connect_failure(Error(code, text.empty() ? fallback : text), exclusive);
    return;
  }
  if (connection.ping_lost()) {
    origin_.note_failure("no answer to PING");
  } else if (!connection.heard() && cause != Errc::kCancelled && connection.http2()) {
    origin_.note_failure(text.empty() ? "connection ended before SETTINGS" : text);
  }
  dispatch();
  dial_as_needed();
}

void Pool::count_tls_failure(const ClientConnection& connection) {
  switch (SSL_get_verify_result(connection.transport().ssl())) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      ++counters_.tls_expired;
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      ++counters_.tls_hostname;
      break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      ++counters_.tls_unknown_ca;
      break;
    case X509_V_OK:
      // "no shared cipher", "sslv3 alert handshake failure": both sides could not agree.
      ++(connection.transport().error().find("handshake failure") != std::string::npos
             ? counters_.tls_cipher
             : counters_.tls_other);
      break;
    default:
      ++counters_.tls_other;
  }
}

void Pool::arm_queue_timer() {
  if (QueuedStream* first = queue_.front()) {
    queue_timer_.start(first->deadline - loop_.now(), [this] { on_queue_timeout(); });
  }
}

void Pool::on_queue_timeout() {
  const bool full = std::any_of(connections_.begin(), connections_.end(),
                                [](const auto& item) { return !item->dedicated && item->ready(); });
  while (QueuedStream* stream = queue_.front()) {
    if (stream->deadline > loop_.now()) {
      break;
    }
    fail_later(*stream, full ? Errc::kOverloaded : Errc::kUnreachable);
  }
  arm_queue_timer();
}

UpstreamStats Pool::stats() const noexcept {
  UpstreamStats result = counters_;
  result.queued = queue_.size() + exclusive_.size();
  result.connecting = dials_.size();
  for (const auto& connection : connections_) {
    if (connection->session() == nullptr) {
      ++result.connecting;
    } else {
      ++result.connections;
      result.streams += connection->stream_count();
    }
  }
  return result;
}

}  // namespace kintsugi::net
