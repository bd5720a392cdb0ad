#include "server/internal/join_service.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "auth/own_roles.h"
#include "base/strings.h"
#include "base/time.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::size_t kMaxBody = std::size_t{64} << 10, kMaxAddresses = 1'024;
constexpr int kTriesPerMinute = 5;
constexpr std::string_view kAuthorityPath = "/join/v1/authority", kJoinPath = "/join/v1";

net::CertificateRequest join_server(std::string name, const std::vector<std::string>& hosts) {
  net::CertificateRequest request;
  request.common_name = std::move(name);
  request.server = true;
  for (const std::string& host : hosts) {
    const bool address = host.find(':') != std::string::npos ||
                         host.find_first_not_of("0123456789.") == std::string::npos;
    (address ? request.ip_addresses : request.dns_names).push_back(host);
  }
  return request;
}

net::CertificateRequest join_client(std::string name, std::string_view group = {}) {
  net::CertificateRequest request;
  request.common_name = std::move(name);
  request.client = true;
  if (!group.empty()) {
    request.organizations.emplace_back(group);
  }
  return request;
}

int status_of(const Error& error) {
  switch (error.code()) {
    case Errc::kTooManyRequests:
      return 429;
    case Errc::kBadRequest:
      return 400;
    case Errc::kForbidden:
      return 403;
    case Errc::kNotFound:
      return 404;
    case Errc::kMethodNotAllowed:
      return 405;
    case Errc::kRequestEntityTooLarge:
      return 413;
    default:
      return 500;
  }
}

void send_text(http::ResponseStream& stream, int status, std::string_view type,
               const std::string& text) {
  http::HeaderList headers;
  headers.add("content-type", type);
  headers.add("cache-control", "no-store");
  if (status == 429) {
    headers.add("retry-after", "60");
  }
  stream.send_head(status, headers, false);
  stream.send_data(std::string_view(text), true);
}

void send_result(http::ResponseStream& stream, const Expected<Json>& result) {
  if (result) {
    send_text(stream, 201, "application/json", result->dump());
    return;
  }
  const int status = status_of(result.error());
  // What went wrong here is nobody's business there.
  const std::string text =
      status == 500 ? "the installation cannot issue now" : std::string(result.error().message());
  send_text(stream, status, "application/json", Json::object({{"message", text}}).dump());
}

/// An answer that needs no body of the request.
class Answered final : public http::RequestHandler {
 public:
  explicit Answered(http::ResponseStream& stream) : stream_(stream) {}
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_close(Errc /*cause*/) noexcept override {}

 private:
  http::ResponseStream& stream_;
};

/// The public part of a token that somebody brought; what has no such form may be a secret.
std::string shown_id(std::string_view token) {
  const std::string_view id = token.substr(0, token.find('.'));
  const bool is_id = id.size() == 8 && id.size() < token.size() &&
                     id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_id ? std::string(id) : "?";
}

}  // namespace

std::vector<JoinCertificate> certificates_of(const JoinToken& token) {
  const std::string shard = "shard-" + token.name;
  switch (token.role) {
    case JoinRole::kShard:
      return {{"serving", "serving-ca", shard, join_server(shard, token.hosts)},
              {"client", "client-ca", shard + "-client", join_client(shard, auth::kGroupOwnShard)}};
    case JoinRole::kProxy:
      return {{"serving", "serving-ca", "proxy", join_server("proxy", token.hosts)},
              {"request-header", "requestheader-ca", "proxy-requestheader",
               join_client("kcp-front-proxy")},
              {"client", "client-ca", "kintsugi-proxy",
               join_client("kintsugi-proxy", auth::kGroupOwnProxy)}};
    case JoinRole::kReviewed:
      return {{"client", "client-ca", "kintsugi-proxy-reviewed",
               join_client("kintsugi-proxy-reviewed", auth::kGroupOwnReader)}};
  }
  return {};
}

/// Of one POST: its body, then the answer.
class JoinService::Collector final : public http::RequestHandler {
 public:
  Collector(JoinService& service, http::ResponseStream& stream)
      : service_(service), stream_(stream) {}
  void on_data(std::string_view bytes, bool end) noexcept override {
    stream_.consume(bytes.size());
    if (answered_) {
      return;
    }
    if (body_.size() + bytes.size() > kMaxBody) {
      answered_ = true;
      send_result(stream_, fail(Errc::kRequestEntityTooLarge, "64 KiB is all that is read"));
      return;
    }
    body_.append(bytes);
    if (end) {
      answered_ = true;
      send_result(stream_, service_.join(stream_.peer().address, body_));
    }
  }
  void on_close(Errc /*cause*/) noexcept override {}

 private:
  JoinService& service_;
  http::ResponseStream& stream_;
  std::string body_;
  bool answered_ = false;
};

JoinService::JoinService(Params params)
    : params_(std::move(params)), pki_(params_.pki), tokens_(params_.pki) {}

std::unique_ptr<http::RequestHandler> JoinService::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  if (head.target == kJoinPath && head.method == "POST") {
    auto collector = std::make_unique<Collector>(*this, stream);
    if (head.end_stream) {
      collector->on_data({}, true);
    }
    return collector;
  }
  if (head.target == kAuthorityPath && head.method == "GET") {
    const auto pem = read_file(pki_.certificate("serving-ca"));
    send_text(
        stream, pem ? 200 : 500, "application/json",
        Json::object({{pem ? "authority" : "message", pem ? *pem : "cannot be read"}}).dump());
  } else {
    const bool known = head.target == kJoinPath || head.target == kAuthorityPath;
    send_result(stream, fail(known ? Errc::kMethodNotAllowed : Errc::kNotFound,
                             known ? "not by this method" : "there is nothing here"));
  }
  return std::make_unique<Answered>(stream);
}

bool JoinService::may_try(const std::string& address) {
  const std::int64_t minute =
      (params_.now ? params_.now() : static_cast<std::int64_t>(std::time(nullptr))) / 60;
  if (tries_.size() >= kMaxAddresses) {
    std::erase_if(tries_, [minute](const auto& one) { return one.second.minute != minute; });
  }
  if (tries_.size() >= kMaxAddresses && tries_.find(address) == tries_.end()) {
    return false;
  }
  Tries& tries = tries_[address];
  if (tries.minute != minute) {
    tries = {minute, 0};
  }
  return ++tries.count <= kTriesPerMinute;
}

Expected<Json> JoinService::join(const std::string& address, std::string_view body) {
  JoinToken taken;
  const auto once = [&]() -> Expected<Json> {
    if (!may_try(address)) {
      return fail(Errc::kTooManyRequests, "five tries a minute");
    }
    const auto asked = Json::parse(body);
    if (!asked || !asked->is_object()) {
      return fail(Errc::kBadRequest, "the body is no JSON object");
    }
    return issue(*asked, taken);
  };
  Expected<Json> result = once();
  tell(address, body, taken, result);
  return result;
}

Expected<Json> JoinService::issue(const Json& asked, JoinToken& taken) {
  const std::int64_t now = params_.now ? params_.now() : std::time(nullptr);
  auto token = tokens_.take(asked.text({"token"}), now);
  if (!token) {
    return fail(std::move(token.error()));
  }
  taken = *token;
  Json certificates = Json::object(), authorities = Json::object();
  for (const JoinCertificate& one : certificates_of(*token)) {
    auto issuer = pki_.issuer(one.ca);
    if (!issuer) {
      return fail(std::move(issuer.error()));
    }
    auto pem =
        net::sign_request(*issuer, std::string(asked.text({"requests", one.use})), one.request);
    if (!pem) {
      return fail(std::move(pem.error()).at(one.use));
    }
    certificates.make({one.use, "file"}) = one.file;
    certificates.make({one.use, "pem"}) = std::move(*pem);
  }
  for (const std::string& name : Pki::authorities()) {
    auto pem = read_file(pki_.certificate(name));
    if (!pem) {
      return fail(std::move(pem.error()));
    }
    authorities.make({name}) = std::move(*pem);
  }
  return Json::object({{"role", name_of(token->role)},
                       {"name", token->name},
                       {"root", params_.root()},
                       {"proxy", params_.proxy()},
                       {"certificates", std::move(certificates)},
                       {"authorities", std::move(authorities)}});
}

void JoinService::tell(const std::string& address, std::string_view body, const JoinToken& token,
                       const Expected<Json>& result) {
  const auto asked = Json::parse(body);
  const std::string id =
      !token.id.empty() ? token.id : shown_id(asked ? asked->text({"token"}) : std::string_view());
  const std::string time =
      rfc3339(params_.now ? params_.now() : static_cast<std::int64_t>(std::time(nullptr)));
  Json status = Json::object({{"code", result ? 201 : status_of(result.error())}});
  if (!result) {
    status.make({"message"}) = std::string(result.error().message());
  }
  Json event = Json::object({{"kind", "Event"},
                             {"apiVersion", "audit.k8s.io/v1"},
                             {"level", "Metadata"},
                             {"stage", "ResponseComplete"},
                             {"requestURI", kJoinPath},
                             {"verb", "create"},
                             {"requestReceivedTimestamp", time},
                             {"responseStatus", std::move(status)}});
  event.make({"user", "username"}) = "join-token:" + id;
  event.make({"sourceIPs"}) = Json::array({Json(address)});
  if (!token.id.empty()) {
    event.make({"annotations", "role"}) = name_of(token.role);
    event.make({"annotations", "name"}) = token.name;
  }
  params_.audit(event.dump());
}

}  // namespace kintsugi::server
