#include "proxy/gates/token_webhook.h"

#include <optional>
#include <utility>

#include "base/digest.h"
#include "krm/json.h"
#include "krm/status.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using Result = auth::TokenAuthenticator::Result;

constexpr int kRetryAfter = 1;  // [s]

std::vector<std::string> texts_of(const Json* list) {
  std::vector<std::string> out;
  if (list == nullptr) {
    return out;
  }
  for (const Json& item : list->items()) {
    if (item.is_string()) {
      out.emplace_back(item.as_string());
    }
  }
  return out;
}

/// The verdict of a TokenReview; an error: it has none.
Expected<std::optional<Result>> verdict_of(const Expected<net::FetchResponse>& answer) {
  auto review = answer && (answer->status == 200 || answer->status == 201)
                    ? Json::parse(answer->body)
                    : Expected<Json>(Json());
  const Json* status = review ? review->find("status") : nullptr;
  if (status == nullptr || !status->is_object()) {
    return fail(krm::unavailable("the token cannot be checked now", kRetryAfter));
  }
  const Json* authenticated = status->find("authenticated");
  const std::string_view name = status->text({"user", "username"});
  if (authenticated == nullptr || !authenticated->as_bool() || name.empty()) {
    return std::optional<Result>();
  }
  Result result;
  result.user.name = name;
  result.user.uid = status->text({"user", "uid"});
  result.user.groups = texts_of(status->at({"user", "groups"}));
  if (const Json* extra = status->at({"user", "extra"}); extra != nullptr) {
    for (const krm::JsonMember& member : extra->members()) {
      result.user.extra.emplace_back(member.key, texts_of(&member.value));
    }
  }
  result.audiences = texts_of(status->find("audiences"));
  return std::optional<Result>(std::move(result));
}

}  // namespace

struct TokenWebhook::Entry {
  std::unique_ptr<net::Call> call;
  std::vector<Done> waiting;
  std::optional<Result> verdict;
  bool known = false;
  TimePoint known_until{};
};

TokenWebhook::TokenWebhook(net::Loop& loop, TokenWebhookConfig config)
    : loop_(loop), config_(std::move(config)), path_(std::exchange(config_.server.url.path, {})) {
  server_ = net::Upstream::make(loop, config_.server);
}
TokenWebhook::~TokenWebhook() = default;

void TokenWebhook::authenticate_token(const auth::BearerPtr& token,
                                      const std::vector<std::string>& audiences,
                                      std::string_view /*cluster*/, Done done) {
  Json spec = Json::object({{"token", token->text()}});
  for (const std::string& audience : audiences) {
    spec["audiences"].push_back(audience);
  }
  const auto digest = sha256(spec.dump());
  const std::string key(reinterpret_cast<const char*>(digest.data()), digest.size());
  if (entries_.size() >= config_.max_entries) {
    std::erase_if(entries_, [](const auto& each) { return each.second->call == nullptr; });
  }
  auto& entry = entries_[key];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
  }
  if (entry->known && loop_.now() < entry->known_until) {
    done(entry->verdict);
    return;
  }
  entry->waiting.push_back(std::move(done));
  if (entry->call != nullptr) {
    return;
  }
  net::FetchRequest request;
  request.method = "POST";
  request.headers.add("content-type", "application/json");
  request.headers.add("accept", "application/json");
  if (!config_.authorization.empty()) {
    request.headers.add("authorization", config_.authorization.view());
  }
  request.body = Json::object({{"apiVersion", "authentication.k8s.io/" + config_.version},
                               {"kind", "TokenReview"},
                               {"spec", std::move(spec)}})
                     .dump();
  request.timeout = config_.timeout;
  request.target = path_;
  entry->call =
      net::fetch(loop_, *server_, std::move(request),
                 [this, key](const Expected<net::FetchResponse>& answer) { finish(key, answer); });
}

void TokenWebhook::finish(const std::string& key, const Expected<net::FetchResponse>& answer) {
  const auto found = entries_.find(key);
  Entry& entry = *found->second;
  auto over = std::make_shared<std::unique_ptr<net::Call>>(std::move(entry.call));
  loop_.defer([over] { over->reset(); });  // this is its callback
  auto verdict = verdict_of(answer);
  auto waiting = std::exchange(entry.waiting, {});
  entry.known = verdict.has_value();
  if (verdict) {
    entry.verdict = *verdict;
    entry.known_until = loop_.now() + config_.cache;
  } else {
    entries_.erase(found);
  }
  for (const Done& done : waiting) {
    done(verdict ? Expected<std::optional<Result>>(*verdict)
                 : Expected<std::optional<Result>>(fail(verdict.error().clone())));
  }
}

}  // namespace kintsugi::proxy
