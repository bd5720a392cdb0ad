#include "auth/issuer_tokens.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/time.h"
#include "krm/status.h"

namespace kintsugi::auth {
namespace {

constexpr int kRetryAfter = 1;  // [s]

Error not_available() {
  return krm::unavailable("the token issuer is not available yet", kRetryAfter);
}

/// One's keys are the other's.
bool same_keys(const JwtIssuer& a, const JwtIssuer& b) {
  return a.config().url == b.config().url && a.config().ca_pem == b.config().ca_pem &&
         a.discovery_url() == b.discovery_url();
}

std::string digest_of(std::string_view token) { return sha256_text(token); }

}  // namespace

/// A token whose issuer's keys are being fetched.
struct IssuerTokens::Waiting {
  BearerPtr token;
  Done done;
  net::Timer timer;
};

IssuerTokens::IssuerTokens(net::Loop& loop, JwtIssuers issuers, bool eager)
    : IssuerTokens(loop, std::move(issuers), eager, Limits()) {}

IssuerTokens::IssuerTokens(net::Loop& loop, JwtIssuers issuers, bool eager, Limits limits,
                           const IssuerTokens* before)
    : loop_(loop), limits_(std::move(limits)) {
  for (auto& rules : issuers) {
    Issuer& issuer = issuers_.emplace_back(Issuer{std::move(rules), nullptr});
    for (std::size_t i = 0; before != nullptr && i < before->issuers_.size(); ++i) {
      if (const Issuer& known = before->issuers_[i]; same_keys(*known.rules, *issuer.rules)) {
        issuer.keys = known.keys;
      }
    }
    if (eager && issuer.keys == nullptr) {
      start(issuer);
    }
  }
}

IssuerTokens::~IssuerTokens() {
  alive_.end();
  for (Issuer& issuer : issuers_) {
    issuer.keys.reset();
  }
  for (auto& [ticket, waiting] : std::exchange(waiting_, {})) {
    waiting->timer.cancel();
    waiting->done(fail(not_available()));
  }
}

void IssuerTokens::start(Issuer& issuer) {
  IssuerKeys::Params params;
  params.issuer = issuer.rules->config().url;
  params.discovery_url = issuer.rules->discovery_url();
  params.ca_pem = issuer.rules->config().ca_pem;
  params.timeout = limits_.timeout;
  params.outgoing = limits_.outgoing;
  params.cluster = limits_.cluster;
  issuer.keys = std::make_shared<IssuerKeys>(loop_, std::move(params));
}

void IssuerTokens::authenticate_token(const BearerPtr& token,
                                      const std::vector<std::string>& /*audiences*/,
                                      std::string_view /*cluster*/, Done done) {
  if (token->text().size() > limits_.max_token || issuers_.empty()) {
    done(std::nullopt);
    return;
  }
  if (const auto known = known_.find(digest_of(token->text())); known != known_.end()) {
    if (loop_.now() < known->second.until && unix_seconds() <= known->second.expires_at) {
      done(std::optional<Result>(Result{known->second.user, {}, false}));
      return;
    }
    known_.erase(known);
  }
  const Jwt* const jwt = token->jwt();
  const std::string_view name = jwt != nullptr ? token_issuer(jwt->claims) : std::string_view();
  const auto found = std::find_if(issuers_.begin(), issuers_.end(), [&](const Issuer& issuer) {
    return issuer.rules->config().url == name;
  });
  if (jwt == nullptr || found == issuers_.end()) {
    done(std::nullopt);
    return;
  }
  judge(*found, token, std::move(done), true);
}

void IssuerTokens::judge(Issuer& issuer, const BearerPtr& token, Done done, bool may_wait) {
  const Jwt& jwt = *token->jwt();
  if (issuer.keys == nullptr) {
    start(issuer);
  }
  IssuerKeys& keys = *issuer.keys;
  if (keys.keys() == nullptr) {
    if (may_wait && keys.fetching()) {
      wait(issuer, token, std::move(done));
    } else {
      done(fail(not_available()));
    }
    return;
  }
  const KeySet::Verdict verdict = keys.keys()->check(jwt, issuer.rules->config().algorithms);
  if (verdict == KeySet::Verdict::kUnknownKey && may_wait) {
    keys.ask();
    if (keys.fetching()) {
      wait(issuer, token, std::move(done));
      return;
    }
  }
  if (verdict != KeySet::Verdict::kGood) {
    done(fail(Errc::kUnauthorized, "the token's signature is not valid"));
    return;
  }
  auto identity = issuer.rules->identify(jwt.claims, unix_seconds());
  if (!identity) {
    log_debug("token refused", {{"issuer", issuer.rules->config().url},
                                {"error", std::string(identity.error().message())}});
    done(fail(std::move(identity.error())));
    return;
  }
  remember(digest_of(token->text()),
           {identity->user, identity->expires_at, loop_.now() + limits_.cache});
  done(std::optional<Result>(Result{std::move(identity->user), {}, false}));
}

void IssuerTokens::wait(Issuer& issuer, BearerPtr token, Done done) {
  const std::uint64_t ticket = ++last_ticket_;
  auto& waiting = waiting_[ticket];
  waiting =
      std::make_unique<Waiting>(Waiting{std::move(token), std::move(done), net::Timer(loop_)});
  const auto go_on = [this, &issuer, ticket] {
    const auto found = waiting_.find(ticket);
    if (found == waiting_.end()) {
      return;
    }
    const auto held = std::move(found->second);
    waiting_.erase(found);
    judge(issuer, held->token, std::move(held->done), false);
  };
  // The slow answer of an issuer must not hold what the keys that are here can decide.
  waiting->timer.start(limits_.wait, go_on);
  issuer.keys->then([alive = alive_.weak(), go_on] {
    if (alive) {
      go_on();
    }
  });
}

void IssuerTokens::remember(std::string key, Entry entry) {
  if (known_.size() >= limits_.max_entries) {
    std::erase_if(known_, [&](const auto& each) { return each.second.until <= loop_.now(); });
  }
  if (known_.size() >= limits_.max_entries) {
    known_.clear();
  }
  known_.insert_or_assign(std::move(key), std::move(entry));
}

}  // namespace kintsugi::auth
