#include "auth/access_review.h"

#include <utility>
#include <vector>

#include "krm/status.h"

namespace kintsugi::auth {
namespace {

using krm::Json;

Json text_list(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    list.push_back(text);
  }
  return list;
}

Json extra_json(const auth::UserInfo& user) {
  Json extra = Json::object();
  for (const auto& [key, values] : user.extra) {
    extra[key] = text_list(values);
  }
  return extra;
}

void put(Json& object, std::string_view key, std::string_view value) {
  if (!value.empty()) {
    object[key] = value;
  }
}

void put_selector(Json& object, std::string_view key, std::string_view selector) {
  if (!selector.empty()) {
    object[key] = Json::object({{"rawSelector", selector}});
  }
}

}  // namespace

Json access_review(const auth::Attributes& attributes, const ReviewSelectors& selectors) {
  Json spec =
      Json::object({{"user", attributes.user.name}, {"groups", text_list(attributes.user.groups)}});
  put(spec, "uid", attributes.user.uid);
  if (!attributes.user.extra.empty()) {
    spec["extra"] = extra_json(attributes.user);
  }
  if (attributes.is_resource) {
    Json& resource = spec["resourceAttributes"];
    resource = Json::object({{"verb", attributes.verb}});
    put(resource, "group", attributes.group);
    put(resource, "version", attributes.version);
    put(resource, "resource", attributes.resource);
    put(resource, "subresource", attributes.subresource);
    put(resource, "namespace", attributes.ns);
    put(resource, "name", attributes.name);
    put_selector(resource, "labelSelector", selectors.labels);
    put_selector(resource, "fieldSelector", selectors.fields);
  } else {
    spec["nonResourceAttributes"] =
        Json::object({{"path", attributes.path}, {"verb", attributes.verb}});
  }
  return Json::object({{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SubjectAccessReview"},
                       {"spec", std::move(spec)}});
}

net::FetchRequest review_request(std::string target, std::string body, Duration timeout) {
  net::FetchRequest request;
  request.method = "POST";
  request.target = std::move(target);
  request.headers.add("content-type", "application/json");
  request.headers.add("accept", "application/json");
  request.body = std::move(body);
  request.timeout = timeout;
  request.kind = net::UpstreamClass::kRead;  // reviews must not wait behind writes
  request.repeatable = true;
  return request;
}

Expected<Json> read_review(Expected<net::FetchResponse> response) {
  if (!response || response->status == 429 || response->status == 503) {
    return fail(krm::unavailable("the permission cannot be checked now", 1));
  }
  if (response->status != 201 && response->status != 200) {
    return fail(Errc::kInternal,
                "the review was answered with " + std::to_string(response->status));
  }
  auto body = Json::parse(response->body);
  if (!body) {
    return fail(Errc::kInternal, "the review was answered with something else");
  }
  return body;
}

Expected<auth::Decision> read_decision(Expected<net::FetchResponse> response) {
  auto body = read_review(std::move(response));
  if (!body) {
    return fail(std::move(body.error()));
  }
  const Json* allowed = body->at({"status", "allowed"});
  const Json* denied = body->at({"status", "denied"});
  const bool is_denied = denied != nullptr && denied->as_bool();
  return auth::Decision{allowed != nullptr && allowed->as_bool() && !is_denied,
                        std::string(body->text({"status", "reason"}))};
}

}  // namespace kintsugi::auth
