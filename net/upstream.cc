#include "net/upstream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/trace.h"
#include "net/internal/client_span.h"
#include "net/internal/pool.h"
#include "net/server_credential.h"
#include "net/upstream_peer.h"

namespace kintsugi::net {
namespace {

constexpr auto kAddressesFresh = seconds(30);
constexpr Duration kShortestPause = milliseconds(50), kPause = milliseconds(500);
constexpr Duration kLongFailure = seconds(60), kLongPause = seconds(5);
constexpr double kDialsPerSecond = 4, kDialBurst = 8;

/// What the credential says and the request does not.
void add_own(const ServerCredential& own, http::HeaderList& headers) {
  if (!own.authorization.empty() && !headers.contains("authorization")) {
    headers.add("authorization", own.authorization.view());
  }
  for (std::size_t i = 0; i < own.headers.size(); ++i) {
    headers.add(own.headers[i].name, own.headers[i].value);
  }
}

class UpstreamImpl final : public Upstream {
 public:
  UpstreamImpl(Loop& loop, UpstreamParams params)
      : origin_(loop, std::move(params)),
        pools_{Pool(origin_, UpstreamClass::kWatch), Pool(origin_, UpstreamClass::kRead),
               Pool(origin_, UpstreamClass::kWrite)} {}
  void set_peer(std::string name) { peer_ = std::move(name); }
  [[nodiscard]] std::int64_t certificate_end() const noexcept { return origin_.certificate_end; }

  http::RequestStream& open(UpstreamClass kind, const http::RequestHead& head,
                            http::ResponseHandler& handler) override {
    if (is_tracing()) {
      const auto parent = parse_trace_parent(head.headers.get("traceparent"));
      if (parent && parent->sampled) {
        return open_recorded(kind, head, *parent, handler);
      }
    }
    return open_plain(kind, head, handler);
  }
  UpstreamStats stats(UpstreamClass kind) const noexcept override {
    return pools_[static_cast<std::size_t>(kind)].stats();
  }
  const UpstreamParams& params() const noexcept override { return origin_.params; }
  void set_tls(std::shared_ptr<TlsContext> tls) noexcept override {
    origin_.tls = std::move(tls);
    origin_.session->put(nullptr);
    origin_.old_sessions.push_back(
        std::exchange(origin_.session, std::make_unique<TlsSessionSlot>()));
    for (Pool& pool : pools_) {
      pool.retire_connections();
    }
  }
  void retry_now() noexcept override {
    origin_.allow_dial();
    for (Pool& pool : pools_) {
      pool.wake();
    }
  }
  void set_ping(Duration after, Duration timeout) noexcept override {
    origin_.params.ping_after = after;
    origin_.params.ping_timeout = timeout;
  }
  Duration round_trip() const noexcept override { return origin_.round_trip.value(); }
  std::uint32_t failures_in_a_row() const noexcept override { return origin_.failures_in_a_row; }
  const std::string& last_failure() const noexcept override { return origin_.last_failure; }

 private:
  http::RequestStream& open_recorded(UpstreamClass kind, const http::RequestHead& head,
                                     const TraceParent& parent, http::ResponseHandler& handler) {
    auto span = std::make_unique<ClientSpan>(origin_.loop, origin_.params.url, peer_, kind, head,
                                             parent, handler);
    http::RequestHead linked = head;
    linked.headers.set("traceparent", span->trace_parent());
    span->begin(open_plain(kind, linked, *span));
    return *span.release();  // it ends its own life
  }

  http::RequestStream& open_plain(UpstreamClass kind, const http::RequestHead& head,
                                  http::ResponseHandler& handler) {
    Pool& pool = pools_[static_cast<std::size_t>(kind)];
    const ServerCredential* const own =
        origin_.tls != nullptr ? &credential_of(*origin_.tls) : nullptr;
    const bool says_nothing =
        own == nullptr || (own->authorization.empty() && own->headers.size() == 0);
    if (says_nothing && !head.scheme.empty() && !head.authority.empty()) {
      return pool.open(head, handler);
    }
    http::RequestHead complete = head;
    if (!says_nothing) {
      add_own(*own, complete.headers);
    }
    if (complete.scheme.empty()) {
      complete.scheme = origin_.params.url.scheme;
    }
    if (complete.authority.empty()) {
      complete.authority = origin_.authority;
    }
    return pool.open(complete, handler);
  }

  Origin origin_;
  std::array<Pool, 3> pools_;
  std::string peer_;  // of spans
};

}  // namespace

void name_peer(Upstream& upstream, std::string name) {
  static_cast<UpstreamImpl&>(upstream).set_peer(std::move(name));
}

std::int64_t peer_certificate_end(const Upstream& upstream) noexcept {
  return static_cast<const UpstreamImpl&>(upstream).certificate_end();
}

Origin::Origin(Loop& the_loop, UpstreamParams the_params)
    : loop(the_loop),
      params(std::move(the_params)),
      authority(params.url.authority()),
      tls(params.tls),
      session(std::make_unique<TlsSessionSlot>()),
      tokens_at_(the_loop.now()),
      random_(reinterpret_cast<std::uintptr_t>(this) ^
              static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) ^ 0x9E3779B9U),
      recovered_(the_loop) {
  if (const std::optional<SocketAddress> address =
          numeric_address(params.url.host, params.url.port)) {
    addresses_.set({*address});
    addresses_until_ = TimePoint::max();
  }
}

std::vector<SocketAddress> Origin::fresh_addresses() {
  if (loop.now() >= addresses_until_ || addresses_.empty()) {
    return {};
  }
  return addresses_.order(loop.now());
}

void Origin::set_addresses(std::vector<SocketAddress> addresses) {
  addresses_.set(std::move(addresses));
  addresses_until_ = loop.now() + kAddressesFresh;
}

bool Origin::may_dial() {
  const TimePoint now = loop.now();
  const std::chrono::duration<double> passed = now - tokens_at_;
  tokens_at_ = now;
  tokens_ = std::min(kDialBurst, tokens_ + passed.count() * kDialsPerSecond);
  if (failures_in_a_row == 0) {
    return true;
  }
  if (tokens_ < 1) {
    return false;
  }
  tokens_ -= 1;
  return true;
}

Duration Origin::dial_pause() {
  const Duration failing = failures_in_a_row == 0 ? Duration::zero() : loop.now() - failing_since;
  const Duration most = failing < kLongFailure ? kPause : kLongPause;
  return jitter(std::clamp<Duration>(failing / 2, kShortestPause, most));
}

bool Origin::may_restart() const {
  return failures_in_a_row != 0 && loop.now() - failing_since < params.restart_window;
}

Duration Origin::jitter(Duration duration) {
  // xorshift64: only spreads timers.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return duration * 9 / 10 + duration / 5 * static_cast<int>(random_ % 1024) / 1024;
}

void Origin::note_success() {
  if (failures_in_a_row == 0) {
    return;
  }
  failures_in_a_row = 0;
  for (Pool* pool : pools) {
    pool->wake();
  }
  if (params.on_recovered) {
    recovered_.start(Duration::zero(), [this] { params.on_recovered(); });
  }
}

void Origin::note_failure(std::string text) {
  if (++failures_in_a_row == 1) {
    failing_since = loop.now();
  }
  last_failure = std::move(text);
  if (addresses_until_ != TimePoint::max()) {
    addresses_until_ = TimePoint{};  // look the name up again
  }
}

std::unique_ptr<Upstream> Upstream::make(Loop& loop, UpstreamParams params) {
  return std::make_unique<UpstreamImpl>(loop, std::move(params));
}

}  // namespace kintsugi::net
