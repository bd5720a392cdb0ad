#include <algorithm>
#include <set>

#include "base/strings.h"
#include "kinds/common.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

constexpr std::string_view kForm = "; desired format: https://host[/path]";
constexpr std::int64_t kMaxPort = 65'535;

const Json& member(const Json& object, std::string_view key) {
  static const Json& none = *new Json();
  const Json* found = object.find(key);
  return found == nullptr ? none : *found;
}

/// Parts of a URL as far as its rules look at them.
struct UrlParts {
  std::string_view scheme, user, host, query, fragment;
};

UrlParts split_url(std::string_view url) {
  UrlParts out;
  const auto cut = [&url](char mark) {
    const std::size_t at = url.find(mark);
    const std::string_view rest =
        at == std::string_view::npos ? std::string_view() : url.substr(at + 1);
    url = url.substr(0, at);
    return rest;
  };
  out.fragment = cut('#');
  out.query = cut('?');
  const std::size_t colon = url.find(':');
  const std::size_t slash = url.find('/');
  if (colon != std::string_view::npos && colon < slash) {
    out.scheme = url.substr(0, colon);
    url.remove_prefix(colon + 1);
  }
  if (url.starts_with("//")) {
    const std::string_view authority = url.substr(2, url.find('/', 2) - 2);
    const std::size_t at = authority.rfind('@');
    out.user = at == std::string_view::npos ? std::string_view() : authority.substr(0, at);
    out.host = at == std::string_view::npos ? authority : authority.substr(at + 1);
  }
  return out;
}

void check_service(const Json& service, const std::string& field, std::vector<Cause>& causes) {
  for (std::string_view key : {"name", "namespace"}) {
    if (service.text({key}).empty()) {
      causes.push_back(krm::field_required(field + "." + std::string(key),
                                           "service " + std::string(key) + " is required"));
    }
  }
  const Json& port = member(service, "port");
  if (port.is_integer() && (port.as_integer() < 1 || port.as_integer() > kMaxPort)) {
    causes.push_back(krm::field_invalid(
        field + ".port", port, "port is not valid: must be between 1 and 65535, inclusive"));
  }
}

void check_review_versions(const Json& versions, const std::string& field,
                           std::vector<Cause>& causes) {
  if (versions.size() == 0) {
    causes.push_back(krm::field_required(field));
    return;
  }
  std::set<std::string_view> seen;
  bool known = false;
  for (std::size_t i = 0; i < versions.items().size(); ++i) {
    const Json& version = versions.items()[i];
    const std::string_view name = version.as_string();
    const std::string here = field + '[' + std::to_string(i) + ']';
    known = known || name == "v1" || name == "v1beta1";
    if (!seen.insert(name).second) {
      causes.push_back(krm::field_invalid(here, version, "duplicate version"));
    }
    const auto faults = krm::check_dns1035_label(name);
    if (!faults.empty()) {
      causes.push_back(krm::field_invalid(here, version, join(faults, ",")));
    }
  }
  if (!known) {
    causes.push_back(
        krm::field_invalid(field, versions, "must include at least one of v1, v1beta1"));
  }
}

}  // namespace

void validate_webhook_url(const Json& url, const std::string& field, std::vector<Cause>& causes) {
  const UrlParts parts = split_url(url.as_string());
  const auto refuse = [&](std::string_view value, std::string_view detail) {
    causes.push_back(krm::field_invalid(field, Json(value), detail));
  };
  if (parts.scheme != "https") {
    refuse(parts.scheme, "'https' is the only allowed URL scheme" + std::string(kForm));
  }
  if (parts.host.empty()) {
    refuse(parts.host, "host must be specified" + std::string(kForm));
  }
  if (!parts.user.empty()) {
    refuse(parts.user, "user information is not permitted in the URL");
  }
  if (!parts.fragment.empty()) {
    refuse(parts.fragment, "fragments are not permitted in the URL");
  }
  if (!parts.query.empty()) {
    refuse(parts.query, "query parameters are not permitted in the URL");
  }
}

void validate_conversion(const Json& conversion, std::vector<Cause>& causes) {
  if (!conversion.is_object()) {
    return;
  }
  const std::string path = "spec.conversion";
  const Json& strategy = member(conversion, "strategy");
  if (strategy.as_string().empty()) {
    causes.push_back(krm::field_required(path + ".strategy"));
  } else if (strategy.as_string() != "None" && strategy.as_string() != "Webhook") {
    causes.push_back(krm::field_not_supported(path + ".strategy", strategy, {"None", "Webhook"}));
  }
  const Json& webhook = member(conversion, "webhook");
  const Json& client = member(webhook, "clientConfig");
  const Json& reviews = member(webhook, "conversionReviewVersions");
  const std::string client_path = path + ".webhookClientConfig";
  if (strategy.as_string() != "Webhook") {
    constexpr std::string_view kDetail = "should not be set when strategy is not set to Webhook";
    if (!client.is_null()) {
      causes.push_back(krm::field_forbidden(client_path, kDetail));
    }
    if (reviews.size() != 0) {
      causes.push_back(krm::field_forbidden(path + ".conversionReviewVersions", kDetail));
    }
    return;
  }
  const Json& url = member(client, "url");
  const Json& service = member(client, "service");
  if (client.is_null()) {
    causes.push_back(krm::field_required(client_path, "required when strategy is set to Webhook"));
  } else if (url.is_null() == service.is_null()) {
    causes.push_back(krm::field_required(client_path, "exactly one of url or service is required"));
  } else if (!url.is_null()) {
    validate_webhook_url(url, client_path + ".url", causes);
  } else {
    check_service(service, client_path + ".service", causes);
  }
  check_review_versions(reviews, path + ".conversionReviewVersions", causes);
}

}  // namespace kintsugi::kinds
