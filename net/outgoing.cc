#include "net/outgoing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/log.h"

namespace kintsugi::net {
namespace {

constexpr Duration kConnectTimeout = seconds(3), kTlsTimeout = seconds(5);
constexpr Duration kFailNotBefore = seconds(1);
constexpr Duration kKept = seconds(300);  // a connection to one address of a name
constexpr Duration kAskAgain = milliseconds(20);
constexpr std::size_t kMaxHead = 16U << 10;
constexpr std::size_t kMostServers = 256, kMostContexts = 64;
constexpr std::size_t kMostAddresses = 3;  // of a name that are tried
constexpr std::size_t kMostWaiting = 256;  // for the budget
constexpr Duration kLogPause = seconds(10);
constexpr std::size_t kMostLogged = 256;
constexpr int kOk = 200;

std::size_t size_of(const http::HeaderList& headers) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    size += headers[i].name.size() + headers[i].value.size();
  }
  return size;
}

std::string digest_of(std::string_view text) {
  const auto digest = sha256(text);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

bool is_local_name(std::string_view host) {
  return host == "localhost" || host.ends_with(".localhost");
}

}  // namespace

std::string server_answered(int status) { return "the server answered " + std::to_string(status); }

Expected<OutgoingPolicy> make_outgoing_policy(const OutgoingRules& rules) {
  OutgoingPolicy policy;
  policy.own = std::make_shared<OwnAddresses>();
  auto judge = OutgoingJudge::make(rules, policy.own);
  if (!judge) {
    return fail(std::move(judge.error()));
  }
  policy.judge = std::move(*judge);
  policy.budget = std::make_shared<OutgoingBudget>();
  return policy;
}

/// What the requests of one loop share.
class Outgoing::Core {
 public:
  Core(Loop& the_loop, OutgoingPolicy the_policy, Resolve the_resolve)
      : loop(the_loop), policy(std::move(the_policy)), resolve(std::move(the_resolve)) {
    if (policy.judge == nullptr) {
      policy.own = std::make_shared<OwnAddresses>();
      policy.judge = *OutgoingJudge::make({}, policy.own);
    }
    if (policy.budget == nullptr) {
      policy.budget = std::make_shared<OutgoingBudget>();
    }
    if (!resolve) {
      resolve = system_resolver();
    }
  }

  struct Server {
    std::shared_ptr<Upstream> upstream;
    TimePoint made_at{};
  };

  /// Connections of this cluster to an address that was judged for this name.
  [[nodiscard]] std::shared_ptr<Upstream> known(const std::string& key) {
    const auto found = servers.find(key);
    if (found == servers.end() || loop.now() - found->second.made_at >= kKept) {
      return nullptr;
    }
    return found->second.upstream;
  }

  /// The only place where connections for tenants come from.
  [[nodiscard]] std::shared_ptr<Upstream> make(const std::string& key, const JudgedAddress& address,
                                               std::shared_ptr<TlsContext> tls) {
    std::erase_if(servers, [this](auto& entry) {
      const bool old = loop.now() - entry.second.made_at >= kKept;
      if (old) {
        let_go(std::move(entry.second.upstream));
      }
      return old;
    });
    if (servers.size() >= kMostServers) {
      const auto oldest = std::min_element(
          servers.begin(), servers.end(),
          [](const auto& a, const auto& b) { return a.second.made_at < b.second.made_at; });
      let_go(std::move(oldest->second.upstream));
      servers.erase(oldest);
    }
    UpstreamParams params;
    params.url = {"https", address.text(), address.port(), ""};
    params.tls = std::move(tls);
    params.max_connections = 8;
    params.max_queued = 64;
    params.connect_timeout = kConnectTimeout;
    params.tls_timeout = kTlsTimeout;
    params.queue_timeout = kConnectTimeout + kTlsTimeout;
    Server& server = servers[key];
    let_go(std::move(server.upstream));
    server = {Upstream::make(loop, std::move(params)), loop.now()};
    return server.upstream;
  }

  void drop(const std::string& key, const std::shared_ptr<Upstream>& upstream) {
    const auto found = servers.find(key);
    if (found != servers.end() && found->second.upstream == upstream) {
      let_go(std::move(found->second.upstream));
      servers.erase(found);
    }
  }

  /// Calls keep the server that they use; it never goes inside a callback of its own.
  void let_go(std::shared_ptr<Upstream> upstream) {
    if (upstream != nullptr) {
      loop.defer([upstream = std::move(upstream)] {});
    }
  }

  /// Which proxy makes the connection, null: none. What the name or the address keeps from it is
  /// reached directly.
  [[nodiscard]] Expected<const ServerCredential::Proxy*> way(const OutgoingTarget& target,
                                                             const JudgedAddress& address) const {
    const ProxyRules& rules = policy.proxies != nullptr ? *policy.proxies : environment_proxies();
    auto by_name = rules.pick({"https", target.host, target.port, ""});
    if (!by_name || *by_name == nullptr) {
      return by_name;
    }
    return rules.pick({"https", address.text(), address.port(), ""});
  }

  /// The way is the context's, too.
  [[nodiscard]] Expected<std::shared_ptr<TlsContext>> context(const OutgoingTarget& target,
                                                              const std::string& ca_pem,
                                                              const ServerCredential::Proxy* way) {
    const std::string key =
        target.host + (way != nullptr ? "\n*" : "\n") + (ca_pem.empty() ? "" : digest_of(ca_pem));
    if (const auto known = contexts.find(key); known != contexts.end()) {
      return known->second;
    }
    TlsParams params;
    params.ca_pem = ca_pem;
    params.server_name = target.host;
    auto made = TlsContext::client(params);
    if (made) {
      ServerCredential says{.own_way = true};
      if (way != nullptr) {
        says.proxy = *way;
      }
      set_credential(**made, std::move(says));
      if (contexts.size() >= kMostContexts) {
        contexts.clear();
      }
      contexts[key] = *made;
    }
    return made;
  }

  /// A cause once in 10 s.
  [[nodiscard]] bool may_log(const std::string& cause) {
    const TimePoint now = loop.now();
    if (logged.size() >= kMostLogged) {
      std::erase_if(logged, [now](const auto& entry) { return entry.second <= now; });
    }
    if (logged.size() >= kMostLogged) {
      return false;
    }
    TimePoint& until = logged[cause];
    const bool may = until <= now;
    if (may) {
      until = now + kLogPause;
    }
    return may;
  }

  Loop& loop;
  OutgoingPolicy policy;
  Resolve resolve;
  std::map<std::string, TimePoint> logged;  ///< not again before
  std::map<std::string, Server> servers;
  std::map<std::string, std::shared_ptr<TlsContext>> contexts;
  std::size_t waiting = 0;  ///< for the budget
};

/// One request. Its Call lets go of it.
class Outgoing::Exchange final : public http::ResponseHandler,
                                 public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Core> core, OutgoingRequest request, Done done)
      : core_(std::move(core)),
        request_(std::move(request)),
        done_(std::move(done)),
        begun_(core_->loop.now()),
        limit_(core_->loop),
        pace_(core_->loop) {}
  ~Exchange() override { give_back(OutgoingBudget::Outcome::kUntold); }

  void start() {
    auto target = core_->policy.judge->judge_url(request_.url);
    if (!target) {
      refuse(target.error());
      return;
    }
    target_ = std::move(*target);
    server_ = target_.host + ":" + std::to_string(target_.port);
    key_ = request_.cluster + '\n' + server_ + '\n' +
           (request_.ca_pem.empty() ? "" : digest_of(request_.ca_pem));
    limit_.start(request_.timeout, [this] { not_reached("time ran out"); });
    if (core_->waiting >= kMostWaiting) {
      not_reached("too many requests wait");
      return;
    }
    take_turn();
  }

  void abandon() {
    done_ = nullptr;
    stop();
  }

  void on_head(http::ResponseHead head, bool end) noexcept override {
    if (size_of(head.headers) > kMaxHead) {
      finish(Errc::kProtocol, kNotUnderstood, "the head of the answer is too long");
    } else if (head.status != kOk) {
      finish(Errc::kProtocol, server_answered(head.status), "", OutgoingBudget::Outcome::kAnswered);
    } else {
      finished_ = end;
    }
  }

  void on_data(std::string_view bytes, bool end) noexcept override {
    if (answer_.body.size() + bytes.size() > request_.max_body) {
      finish(Errc::kProtocol, kNotUnderstood, "the answer is too long");
      return;
    }
    answer_.body.append(bytes);
    finished_ = end;
    if (!bytes.empty() && stream_ != nullptr) {
      stream_->consume(bytes.size());
    }
  }

  void on_close(Errc cause) noexcept override {
    stream_ = nullptr;
    if (ended_) {
      return;
    }
    if (finished_) {
      succeed();
      return;
    }
    const std::string why = upstream_ == nullptr ? "" : upstream_->last_failure();
    const bool verified = cause != Errc::kTls || !refused_certificate();
    forget_server();
    if (!verified) {
      finish(Errc::kTls, kNotVerified, why);
      return;
    }
    const bool untouched = cause == Errc::kRefused || cause == Errc::kUnreachable;
    if (untouched && next_ < addresses_.size() && next_ < kMostAddresses) {
      core_->loop.defer([weak = weak_from_this()] {
        if (const auto kept = weak.lock(); kept != nullptr && !kept->ended_) {
          kept->dial();
        }
      });
      return;
    }
    not_reached(why.empty() ? std::string(errc_name(cause)) : why);
  }

 private:
  void take_turn() {
    switch (core_->policy.budget->take(request_.cluster, server_, core_->loop.now())) {
      case OutgoingBudget::Grant::kGo:
        wait(false);
        granted_ = true;
        granted_at_ = core_->loop.now();
        resolve();
        return;
      case OutgoingBudget::Grant::kPaused:
        not_reached("failed too often lately");
        return;
      case OutgoingBudget::Grant::kWait:
        wait(true);
        pace_.start(kAskAgain, [this] { take_turn(); });
        return;
    }
  }

  void wait(bool now) {
    if (now != std::exchange(waits_, now)) {
      core_->waiting = now ? core_->waiting + 1 : core_->waiting - 1;
    }
  }

  void resolve() {
    if ((upstream_ = core_->known(key_)) != nullptr) {
      open();
      return;
    }
    if (target_.is_literal) {
      auto judged = core_->policy.judge->judge_literal(target_);
      take_addresses(std::move(judged));
      return;
    }
    lookup_ =
        core_->resolve(core_->loop, request_.cluster, target_.host, target_.port,
                       [this](Expected<std::vector<SocketAddress>> answers) {
                         if (!answers) {
                           not_reached(std::string(answers.error().message()));
                           return;
                         }
                         take_addresses(core_->policy.judge->judge_answers(target_, *answers));
                       });
  }

  void take_addresses(Expected<std::vector<JudgedAddress>> judged) {
    if (!judged) {
      if (target_.is_literal || is_local_name(target_.host)) {
        refuse(judged.error());
      } else {
        // What a name means here is nobody's business outside.
        not_reached(std::string(judged.error().message()));
      }
      return;
    }
    addresses_ = std::move(*judged);
    dial();
  }

  void dial() {
    const JudgedAddress& address = addresses_[next_++];
    const auto way = core_->way(target_, address);
    if (!way) {
      not_reached(std::string(way.error().message()));
      return;
    }
    auto tls = core_->context(target_, request_.ca_pem, *way);
    if (!tls) {
      finish(Errc::kTls, kNotVerified, tls.error().to_string());
      return;
    }
    upstream_ = core_->make(key_, address, std::move(*tls));
    open();
  }

  void open() {
    http::RequestHead head;
    head.method = request_.method;
    head.scheme = "https";
    head.authority = target_.authority;
    head.target = target_.path + request_.query;
    head.headers = request_.headers;
    head.end_stream = request_.body.empty();
    if (!head.end_stream) {
      head.headers.add("content-length", std::to_string(request_.body.size()));
    }
    stream_ = &upstream_->open(UpstreamClass::kWrite, head, *this);
    if (!request_.body.empty()) {
      stream_->send_data(request_.body, true);
    }
  }

  /// Anything else that a handshake can end with says as little as a closed port.
  [[nodiscard]] bool refused_certificate() const {
    if (upstream_ == nullptr) {
      return false;
    }
    const UpstreamStats stats = upstream_->stats(UpstreamClass::kWrite);
    return stats.tls_unknown_ca + stats.tls_expired + stats.tls_hostname > 0;
  }

  void succeed() {
    const bool proven =
        !request_.echo.empty() && answer_.body.find(request_.echo) != std::string::npos;
    give_back(proven ? OutgoingBudget::Outcome::kProven : OutgoingBudget::Outcome::kAnswered);
    end(std::move(answer_));
  }

  void refuse(const Error& cause) {
    finish(Errc::kForbidden, kUrlNotAllowed, std::string(cause.message()),
           OutgoingBudget::Outcome::kUntold);
  }

  /// Sounds and lasts alike, whatever it is.
  void not_reached(std::string cause) {
    forget_server();
    log_cause(kNotReached, cause);
    give_back(OutgoingBudget::Outcome::kFailed);
    stop();
    const Duration early = begun_ + kFailNotBefore - core_->loop.now();
    pace_.start(std::max<Duration>(early, Duration::zero()),
                [this] { end(fail(Errc::kUnreachable, std::string(kNotReached))); });
  }

  void finish(Errc code, std::string_view text, std::string cause,
              OutgoingBudget::Outcome outcome = OutgoingBudget::Outcome::kFailed) {
    log_cause(text, cause);
    give_back(outcome);
    end(fail(code, std::string(text)));
  }

  void log_cause(std::string_view text, const std::string& cause) const {
    if (core_->may_log(request_.cluster + '\n' + server_ + std::string(text))) {
      log_warn("a request for a tenant failed", {{"cluster", request_.cluster},
                                                 {"url", request_.url.substr(0, 256)},
                                                 {"outcome", text},
                                                 {"error", cause}});
    }
  }

  void give_back(OutgoingBudget::Outcome outcome) {
    if (std::exchange(granted_, false)) {
      core_->policy.budget->give_back(request_.cluster, server_, outcome, granted_at_,
                                      core_->loop.now());
    }
  }

  void forget_server() {
    if (upstream_ != nullptr) {
      core_->drop(key_, upstream_);
      core_->let_go(std::move(upstream_));
      upstream_ = nullptr;
    }
  }

  void stop() {
    ended_ = true;
    wait(false);
    limit_.cancel();
    pace_.cancel();
    lookup_.reset();
    if (stream_ != nullptr) {
      std::exchange(stream_, nullptr)->detach();
    }
    if (upstream_ != nullptr) {
      core_->let_go(std::move(upstream_));
      upstream_ = nullptr;
    }
    give_back(OutgoingBudget::Outcome::kUntold);
  }

  void end(Expected<OutgoingAnswer> result) {
    stop();
    // After the turn's callbacks, so that the user may destroy anything.
    auto kept = std::make_shared<Expected<OutgoingAnswer>>(std::move(result));
    core_->loop.defer([weak = weak_from_this(), kept] {
      if (const auto self = weak.lock(); self != nullptr && self->done_) {
        const Done done = std::exchange(self->done_, nullptr);
        done(std::move(*kept));
      }
    });
  }

  std::shared_ptr<Core> core_;
  OutgoingRequest request_;
  Done done_;
  const TimePoint begun_;
  Timer limit_, pace_;
  OutgoingTarget target_;
  std::string server_, key_;
  std::shared_ptr<void> lookup_;
  std::vector<JudgedAddress> addresses_;
  std::size_t next_ = 0;
  std::shared_ptr<Upstream> upstream_;
  http::RequestStream* stream_ = nullptr;
  OutgoingAnswer answer_;
  TimePoint granted_at_{};
  bool granted_ = false, waits_ = false, finished_ = false, ended_ = false;
};

class Outgoing::Handle final : public Call {
 public:
  explicit Handle(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Handle() override { exchange_->abandon(); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

Outgoing::Outgoing(Loop& loop, OutgoingPolicy policy, Resolve resolve)
    : core_(std::make_shared<Core>(loop, std::move(policy), std::move(resolve))) {}

Outgoing::~Outgoing() { core_->servers.clear(); }

std::unique_ptr<Call> Outgoing::send(OutgoingRequest request, Done done) {
  auto exchange = std::make_shared<Exchange>(core_, std::move(request), std::move(done));
  // In a turn of its own: what is refused at once is told later, too.
  core_->loop.post([weak = std::weak_ptr<Exchange>(exchange)] {
    if (const auto self = weak.lock(); self != nullptr) {
      self->start();
    }
  });
  return std::make_unique<Handle>(std::move(exchange));
}

}  // namespace kintsugi::net
