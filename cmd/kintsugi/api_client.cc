#include "cmd/kintsugi/api_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "base/version.h"
#include "cmd/kintsugi/commands.h"
#include "net/tls.h"

namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr Duration kRequestTimeout = seconds(30);
constexpr std::uint32_t kLongestRetry = 10;  // [s]
constexpr const char* kPage = "500";         // items of a list

struct Meaning {
  int status;
  Errc code;
};
constexpr Meaning kMeanings[] = {
    {400, Errc::kBadRequest},      {401, Errc::kUnauthorized}, {403, Errc::kForbidden},
    {404, Errc::kNotFound},        {409, Errc::kConflict},     {422, Errc::kInvalid},
    {429, Errc::kTooManyRequests}, {503, Errc::kUnavailable},  {504, Errc::kTimeout}};

Errc code_of(int status, std::string_view reason) {
  if (reason == "AlreadyExists") {
    return Errc::kAlreadyExists;
  }
  for (const Meaning& one : kMeanings) {
    if (one.status == status) {
      return one.code;
    }
  }
  return Errc::kInternal;
}

Error failure(const net::FetchResponse& response, const std::string& server) {
  const Expected<Json> status = Json::parse(response.body);
  std::string text = status ? std::string(status->text({"message"})) : response.body;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  if (response.status == 401) {
    text = server + " does not accept the credentials of the kubeconfig";
  } else if (text.empty()) {
    text = server + " answered " + std::to_string(response.status);
  }
  return Error(code_of(response.status, status ? status->text({"reason"}) : std::string_view()),
               std::move(text));
}

/// How long the server asks to wait; nullopt: it does not.
std::optional<Duration> retry_after(const net::FetchResponse& response) {
  if (response.status != 429 && response.status != 503) {
    return std::nullopt;
  }
  const std::string_view value = response.headers.get("retry-after");
  const std::optional<std::uint32_t> wait = parse_decimal<std::uint32_t>(value);
  return wait ? std::optional<Duration>(seconds(std::min(*wait, kLongestRetry))) : std::nullopt;
}

}  // namespace

Expected<std::unique_ptr<ApiClient>> ApiClient::make(const server::KubeAccess& access,
                                                     const std::string& base) {
  auto url = net::Url::parse(base);
  if (!url) {
    return fail(std::move(url.error()).at("server " + base));
  }
  net::TlsParams tls;
  tls.ca_pem = access.ca_pem;
  tls.certificate_pem = access.certificate_pem;
  tls.key_pem = access.key_pem;
  tls.server_name = access.server_name;
  tls.verify_peer = !access.insecure;
  net::UpstreamParams params;
  if (url->scheme == "https") {
    auto context = net::TlsContext::client(tls);
    if (!context) {
      return fail(std::move(context.error()).at("kubeconfig"));
    }
    params.tls = std::move(*context);
  }
  std::unique_ptr<ApiClient> client(new ApiClient());
  client->server_ = base;
  client->authorization_ = access.authorization();
  params.url = std::move(*url);
  params.max_connections = 1;
  client->upstream_ = net::Upstream::make(client->loop_, std::move(params));
  return client;
}

Error ApiClient::unreachable(const Error& cause) const {
  std::string text = "cannot reach " + server_;
  const std::string& why = upstream_->last_failure();
  if (!why.empty()) {
    text += ": " + why;
  } else if (!cause.message().empty()) {
    text += ": " + std::string(cause.message());
  }
  return Error(cause.code(), std::move(text));
}

Expected<net::FetchResponse> ApiClient::exchange(const std::string& method,
                                                 const std::string& target, const std::string& body,
                                                 Duration patience) {
  net::FetchRequest request;
  request.method = method;
  request.target = target;
  request.headers.add("accept", "application/json");
  request.headers.add("user-agent", std::string("kintsugi-ws/") + product_version());
  if (!authorization_.empty()) {
    request.headers.add("authorization", authorization_.view());
  }
  if (!body.empty()) {
    request.headers.add("content-type", "application/json");
    request.body = body;
  }
  request.timeout = patience;
  std::optional<Expected<net::FetchResponse>> answer;
  const std::unique_ptr<net::Call> call =
      net::fetch(loop_, *upstream_, std::move(request), [&](Expected<net::FetchResponse> response) {
        answer.emplace(std::move(response));
        loop_.stop();
      });
  loop_.run();
  return std::move(*answer);
}

Expected<Json> ApiClient::send(const std::string& method, const std::string& target,
                               const Json& body) {
  const std::string text = body.is_null() ? std::string() : body.dump();
  const TimePoint end = now() + limit_;
  while (true) {
    Expected<net::FetchResponse> response = exchange(method, target, text, kRequestTimeout);
    if (!response) {
      return fail(unreachable(response.error()));
    }
    if (const auto wait = retry_after(*response); wait && now() + *wait < end) {
      pause(*wait);
      continue;
    }
    if (response->status >= 300) {
      return fail(failure(*response, server_));
    }
    Expected<Json> object = Json::parse(response->body);
    if (!object) {
      return fail(Errc::kInternal, server_ + " gave an answer that is not JSON");
    }
    return object;
  }
}

Expected<ApiClient::Page> ApiClient::page(const std::string& target, Duration patience) {
  Expected<net::FetchResponse> response = exchange("GET", target, {}, patience);
  if (!response) {
    return fail(unreachable(response.error()));
  }
  return Page{response->status, std::move(response->body)};
}

Expected<std::vector<Json>> ApiClient::list(const std::string& target, std::string_view labels) {
  std::vector<Json> out;
  std::string token;
  do {
    std::string page_of = target + "?limit=" + kPage;
    if (!labels.empty()) {
      page_of += "&labelSelector=" + percent_encode(labels);
    }
    if (!token.empty()) {
      page_of += "&continue=" + percent_encode(token);
    }
    Expected<Json> page = send("GET", page_of);
    if (!page) {
      return fail(std::move(page.error()));
    }
    if (const Json* items = page->find("items")) {
      out.insert(out.end(), items->items().begin(), items->items().end());
    }
    token = page->text({"metadata", "continue"});
  } while (!token.empty());
  return out;
}

void ApiClient::pause(Duration length) {
  loop_.after(length, [this] { loop_.stop(); });
  loop_.run();
}

}  // namespace kintsugi::cmd
