// The loop's end of the port: from its opening to the drain.
#include <utility>

#include "base/log.h"
#include "net/inherited_sockets.h"
#include "proxy/gates/border_identity.h"
#include "server/internal/proxy_loop.h"
#include "serving/crowded.h"
#include "serving/identity.h"

namespace kintsugi::server {

auth::CertificateProofs::Kind identities_of(const proxy::AuthenticationConfig& config) {
  return proxy::at_border(serving::proxy_identities({{}, config.pass_groups, config.drop_groups}),
                          config.border);
}

Expected<std::uint16_t> ProxyLoop::listen(std::uint16_t port, int inherited) {
  net::ListenerParams params;
  params.address = shared_.config.listener.address;
  params.port = port;
  params.reuse_port = true;
  params.tls = shared_.serving_tls;
  params.limits.max_streams = shared_.config.listener.max_streams;
  const proxy::ListenerTimeouts& timeouts = shared_.config.listener.timeouts;
  params.handshake_timeout = timeouts.handshake;
  params.header_timeout = timeouts.header;
  params.first_request_timeout = timeouts.first_request;
  params.idle_timeout = timeouts.idle;
  params.progress_timeout = timeouts.slow_reader;
  params.group = shared_.group;
  params.book = shared_.limits->connections();
  params.owner = [](const http::PeerInfo& peer) {
    const serving::ConnectionIdentity* identity = serving::identity_of(peer);
    const bool is_user = identity != nullptr && identity->user;
    return serving::owner_of(is_user ? &*identity->user : nullptr, peer);
  };
  params.crowded = &crowded_;
  const proxy::AuthenticationConfig& authentication = shared_.config.authentication;
  filter_ = {authentication.pass_groups, authentication.drop_groups};
  identities_ = std::make_unique<auth::CertificateProofs>(loop_, shared_.verifier,
                                                          identities_of(authentication));
  identities_->on_ended([this] { end_unproven(); });
  identities_->serve(params);
  if (inherited >= 0) {
    params.inherited = inherited;
    later_ = std::make_unique<net::ListenerParams>(std::move(params));
    return net::bound_port(inherited);
  }
  auto opened = open_listener(std::move(params));
  return opened ? Expected<std::uint16_t>(listener_->port()) : fail(std::move(opened.error()));
}

Expected<void> ProxyLoop::open_listener(net::ListenerParams params) {
  auto listener =
      net::Listener::open(loop_, std::move(params),
                          trace_ != nullptr ? static_cast<http::Handler&>(*trace_) : *entrance_);
  if (!listener) {
    return fail(std::move(listener.error()));
  }
  listener_ = std::move(*listener);
  return {};
}

void ProxyLoop::accept() {
  loop_.post([this] {
    const auto params = std::exchange(later_, nullptr);
    if (params == nullptr) {
      return;
    }
    if (auto opened = open_listener(std::move(*params)); !opened) {
      log_error("cannot listen at the socket that was given",
                {{"error", opened.error().to_string()}});
    }
  });
}

void ProxyLoop::set_serving_tls(std::shared_ptr<net::TlsContext> tls) {
  loop_.post([this, tls = std::move(tls)] {
    if (listener_ != nullptr) {
      listener_->set_tls(tls);
    } else if (later_ != nullptr) {
      later_->tls = tls;
    }
  });
}

void ProxyLoop::drain(Duration delay, Duration spread, std::function<void()> done) {
  loop_.post([this, delay, spread, done = std::move(done)] {
    handler_->start_drain();
    drain_timer_.start(delay, [this, spread, done] {
      if (std::exchange(later_, nullptr) == nullptr) {
        listener_->drain(done);
      }
      local_->start_drain();
      handler_->end_watches(spread);
      if (console_ != nullptr) {
        console_->end();
      }
      if (listener_ == nullptr) {
        done();
      }
    });
  });
}

}  // namespace kintsugi::server
