#include "proxy/gates/internal/token_review.h"

#include <optional>
#include <utility>

#include "auth/authenticators.h"
#include "base/guard.h"
#include "krm/json.h"
#include "krm/request_target.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

constexpr std::string_view kPath = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr std::string_view kJson = "application/json";
constexpr int kCreated = 201;

Json user_json(const auth::UserInfo& user) {
  Json out = Json::object({{"username", Json(user.name)}});
  if (!user.uid.empty()) {
    out["uid"] = user.uid;
  }
  for (const std::string& group : user.groups) {
    out["groups"].push_back(group);
  }
  for (const auto& [key, values] : user.extra) {
    for (const std::string& value : values) {
      out["extra"][key].push_back(value);
    }
  }
  return out;
}

}  // namespace

namespace {

/// Cheap, and true for every spelling.
bool may_be_review(std::string_view target) {
  return target.find("tokenreviews") != std::string_view::npos ||
         target.find('%') != std::string_view::npos;
}

}  // namespace

bool is_token_review(const Request& request) {
  const http::RequestHead& head = request.head;
  if (head.method != "POST" || !may_be_review(head.target) ||
      !head.headers.get("content-type").starts_with(kJson)) {
    return false;
  }
  if (request.target.form != krm::TargetForm::kCluster) {
    return false;
  }
  const std::string trail =
      krm::canonical_trail(std::string_view(head.target).substr(request.target.trail));
  return std::string_view(trail).substr(0, trail.find('?')) == kPath;
}

TokenReviewRequest::TokenReviewRequest(std::shared_ptr<WorkspaceTokens> tokens, std::string cluster,
                                       Request&& request, http::ResponseStream& stream,
                                       const Begin& begin)
    : tokens_(std::move(tokens)),
      cluster_(std::move(cluster)),
      stream_(stream),
      self_(std::make_shared<TokenReviewRequest*>(this)) {
  inner_ = begin(std::move(request), *this);
}

void TokenReviewRequest::on_data(std::string_view bytes, bool end) noexcept {
  if (asked_.size() <= kMaxBody) {  // one that is larger is cut, and no JSON then
    asked_.append(bytes.substr(0, kMaxBody + 1 - asked_.size()));
  }
  inner_->on_data(bytes, end);
}

void TokenReviewRequest::send_head(int status, const http::HeaderList& headers, bool end) noexcept {
  const bool looked_at = status == kCreated && !end && !headers.contains("content-encoding") &&
                         headers.get("content-type").starts_with(kJson);
  if (!looked_at) {
    stream_.send_head(status, headers, end);
    return;
  }
  held_ = true;
  status_ = status;
  headers_ = headers;
}

void TokenReviewRequest::send_data(std::string_view bytes, bool end) noexcept {
  if (!held_) {
    stream_.send_data(bytes, end);
    return;
  }
  answer_.append(bytes);
  if (answer_.size() > 2 * kMaxBody) {
    held_ = false;
    stream_.send_head(status_, headers_, false);
    stream_.send_data(std::exchange(answer_, {}), end);
  } else if (end && !guarded("token review", [this] { judge(); })) {
    finish(std::move(answer_));  // what the shard said
  }
}

void TokenReviewRequest::send_trailers(const http::HeaderList& trailers) noexcept {
  if (std::exchange(held_, false)) {
    stream_.send_head(status_, headers_, false);
    stream_.send_data(answer_, false);
  }
  stream_.send_trailers(trailers);
}

void TokenReviewRequest::judge() {
  const auto asked = Json::parse(asked_.size() <= kMaxBody ? asked_ : std::string());
  auto answer = Json::parse(answer_);
  const Json* verdict = answer ? answer->at({"status", "authenticated"}) : nullptr;
  const Json* audiences = asked ? asked->at({"spec", "audiences"}) : nullptr;
  const std::string_view token = asked ? asked->text({"spec", "token"}) : std::string_view();
  // Tokens of these issuers are for the workspace: other audiences are none of their business.
  if (!answer || (verdict != nullptr && verdict->as_bool()) || token.empty() ||
      (audiences != nullptr && audiences->size() != 0)) {
    finish(std::move(answer_));
    return;
  }
  auth::authenticate_bounded(
      *tokens_, std::make_shared<const auth::Bearer>(token), {}, cluster_,
      [weak = self_, review = std::make_shared<Json>(std::move(*answer))](auto result) {
        TokenReviewRequest* self = *weak;
        if (self == nullptr || self->closed_) {
          return;
        }
        if (!result || !*result) {
          self->finish(std::move(self->answer_));
          return;
        }
        auth::UserInfo user = std::move((*result)->user);
        auth::add_authenticated_group(user);
        (*review)["status"] = Json::object({{"authenticated", true}, {"user", user_json(user)}});
        self->finish(review->dump() + "\n");
      });
}

void TokenReviewRequest::finish(std::string body) {
  held_ = false;
  headers_.set("content-length", std::to_string(body.size()));
  stream_.send_head(status_, headers_, false);
  stream_.send_data(body, true);
}

}  // namespace kintsugi::proxy
