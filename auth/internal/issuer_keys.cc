#include "auth/internal/issuer_keys.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "krm/json.h"

namespace kintsugi::auth {
namespace {

constexpr std::size_t kMaxDocument = 1U << 20;
constexpr int kOk = 200;

/// An absolute URL as the server of a request and its target, byte for byte.
struct Place {
  net::Url server;
  std::string target;
};
Expected<Place> place_of(std::string_view url) {
  url = url.substr(0, url.find('#'));
  const std::size_t scheme = url.find("://");
  const std::size_t path =
      scheme == std::string_view::npos ? scheme : url.find_first_of("/?", scheme + 3);
  Place place;
  auto server = net::Url::parse(url.substr(0, path));
  if (!server) {
    return fail(std::move(server.error()));
  }
  place.server = std::move(*server);
  place.target = path == std::string_view::npos ? "/" : std::string(url.substr(path));
  if (place.target.front() == '?') {
    place.target.insert(0, "/");
  }
  const bool clean = std::all_of(place.target.begin(), place.target.end(),
                                 [](char c) { return c > ' ' && c < 0x7f; });
  if (!clean || place.server.scheme != "https") {
    return fail(Errc::kConfig, "no https URL");
  }
  return place;
}

}  // namespace

/// One fetch: servers die after their calls.
struct IssuerKeys::Round {
  TimePoint until;
  std::vector<std::unique_ptr<net::Upstream>> servers;
  std::vector<std::unique_ptr<net::Call>> calls;
};

IssuerKeys::IssuerKeys(net::Loop& loop, Params params)
    : loop_(loop),
      params_(std::move(params)),
      timer_(loop),
      retry_(params_.close_retry),
      close_retries_(params_.close_retries) {
  fetch();
}
IssuerKeys::~IssuerKeys() {
  alive_.end();
  if (round_ != nullptr) {
    round_->calls.clear();
  }
}

void IssuerKeys::ask() {
  if (round_ == nullptr && loop_.now() >= fetched_at_ + params_.least_pause) {
    fetch();
  }
}

void IssuerKeys::then(std::function<void()> done) {
  if (fetching()) {
    waiting_.push_back(std::move(done));
    return;
  }
  loop_.post([alive = alive_.weak(), done = std::move(done)] {
    if (alive) {
      done();
    }
  });
}

void IssuerKeys::request_outgoing(const std::string& url,
                                  std::function<void(const Expected<net::FetchResponse>&)> done) {
  net::OutgoingRequest request;
  request.cluster = params_.cluster;
  request.url = url;
  request.ca_pem = params_.ca_pem;
  request.headers.add("accept", "application/json");
  request.headers.add("user-agent", "kintsugi-proxy");
  request.timeout = std::max<Duration>(round_->until - loop_.now(), milliseconds(1));
  request.max_body = kMaxDocument;
  round_->calls.push_back(params_.outgoing->send(
      std::move(request), [done = std::move(done)](Expected<net::OutgoingAnswer> answer) {
        if (!answer) {
          done(fail(std::move(answer.error())));
          return;
        }
        net::FetchResponse response;
        response.status = kOk;
        response.body = std::move(answer->body);
        done(std::move(response));
      }));
}

bool IssuerKeys::request(const std::string& url,
                         std::function<void(const Expected<net::FetchResponse>&)> done) {
  if (params_.outgoing != nullptr) {
    request_outgoing(url, std::move(done));
    return true;
  }
  auto place = place_of(url);
  if (!place) {
    return false;
  }
  net::TlsParams tls;
  tls.ca_pem = params_.ca_pem;
  auto context = net::TlsContext::client(tls);
  if (!context) {
    return false;
  }
  net::UpstreamParams server;
  server.url = std::move(place->server);
  server.tls = std::move(*context);
  server.max_connections = 1;
  round_->servers.push_back(net::Upstream::make(loop_, std::move(server)));
  net::FetchRequest head;
  head.target = std::move(place->target);
  head.headers.add("accept", "application/json");
  head.headers.add("user-agent", "kintsugi-proxy");
  head.timeout = std::max<Duration>(round_->until - loop_.now(), milliseconds(1));
  round_->calls.push_back(
      net::fetch(loop_, *round_->servers.back(), std::move(head), std::move(done)));
  return true;
}

void IssuerKeys::fetch() {
  timer_.cancel();
  starting_ = false;
  fetched_at_ = loop_.now();
  round_ = std::make_unique<Round>();
  round_->until = fetched_at_ + params_.timeout;
  if (!request(params_.discovery_url,
               [this](const Expected<net::FetchResponse>& answer) { take_discovery(answer); })) {
    finish("the discovery document has no usable URL");
  }
}

void IssuerKeys::take_discovery(const Expected<net::FetchResponse>& answer) {
  if (!answer || answer->status != kOk || answer->body.size() > kMaxDocument) {
    finish(!answer ? answer.error().to_string()
                   : "the discovery document was answered " + std::to_string(answer->status));
    return;
  }
  krm::Json::ParseOptions options;
  options.max_depth = 32;
  const auto document = krm::Json::parse(answer->body, options);
  if (!document || document->text({"issuer"}) != params_.issuer) {
    finish("the discovery document is of another issuer");
    return;
  }
  if (!request(std::string(document->text({"jwks_uri"})),
               [this](const Expected<net::FetchResponse>& keys) { take_keys(keys); })) {
    finish("jwks_uri is no https URL");
  }
}

void IssuerKeys::take_keys(const Expected<net::FetchResponse>& answer) {
  if (!answer || answer->status != kOk) {
    finish(!answer ? answer.error().to_string()
                   : "the keys were answered " + std::to_string(answer->status));
    return;
  }
  auto keys = KeySet::parse(answer->body);
  if (!keys) {
    finish(std::string(keys.error().message()));
    return;
  }
  keys_ = std::make_unique<KeySet>(std::move(*keys));
  finish("");
}

void IssuerKeys::finish(const std::string& fault) {
  auto over = std::make_shared<std::unique_ptr<Round>>(std::move(round_));
  loop_.defer([over] {  // this may be a callback of one of its calls
    (*over)->calls.clear();
    over->reset();
  });
  if (fault.empty()) {
    if (!std::exchange(last_fault_, "").empty()) {
      log_info("keys of a token issuer are here", {{"issuer", params_.issuer}});
    }
    retry_ = params_.first_retry;
    timer_.start(params_.refresh, [this] { fetch(); });
  } else {
    if (std::exchange(last_fault_, fault) != fault) {
      log_warn("keys of a token issuer cannot be fetched",
               {{"issuer", params_.issuer}, {"error", fault}});
    }
    starting_ = keys_ == nullptr && close_retries_-- > 0;
    if (!starting_) {
      retry_ = std::max(retry_, params_.first_retry);
    }
    timer_.start(retry_, [this] { fetch(); });
    retry_ = std::min(retry_ * 2, params_.longest_retry);
    if (starting_) {
      return;
    }
  }
  for (auto& done : std::exchange(waiting_, {})) {
    loop_.post([alive = alive_.weak(), done = std::move(done)] {
      if (alive) {
        done();
      }
    });
  }
}

}  // namespace kintsugi::auth
