#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "kinds/common.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;
using Texts = std::vector<std::string>;

constexpr std::int64_t kMaxPort = 65'535;
constexpr std::int64_t kMaxTimeout = 30;
constexpr std::size_t kLeastNameParts = 3;

const Json::Array& items(const Json& object, std::string_view member) {
  static const Json::Array& none = *new Json::Array;
  const Json* list = object.find(member);
  return list == nullptr ? none : list->items();
}

std::string at(const std::string& field, std::size_t index) {
  return field + '[' + std::to_string(index) + ']';
}

void check_name(const Json& webhook, const std::string& field, std::vector<Cause>& causes) {
  const std::string name(webhook.text({"name"}));
  if (name.empty()) {
    causes.push_back(krm::field_required(field));
  } else if (const krm::Messages faults = krm::check_dns1123_subdomain(name); !faults.empty()) {
    causes.push_back(krm::field_invalid(field, Json(name), join(faults, ",")));
  } else if (split(name, '.').size() < kLeastNameParts) {
    causes.push_back(krm::field_invalid(
        field, Json(name), "should be a domain with at least three segments separated by dots"));
  }
}

/// A member with a fixed set of values.
void check_choice(const Json& webhook, const char* member, const Texts& choices,
                  const std::string& field, std::vector<Cause>& causes) {
  const Json* value = webhook.find(member);
  if (value != nullptr && !value->is_null() &&
      std::find(choices.begin(), choices.end(), value->as_string()) == choices.end()) {
    causes.push_back(krm::field_not_supported(field + "." + member, *value, choices));
  }
}

void check_selector(const Json& webhook, const std::string& member, const std::string& field,
                    std::vector<Cause>& causes) {
  if (is_set(webhook, member)) {
    validate_label_selector(*webhook.find(member), field + "." + member, causes);
  }
}

void check_path(const std::string& path, const std::string& field, std::vector<Cause>& causes) {
  if (path.empty() || path == "/") {
    return;
  }
  const auto refuse = [&](const std::string& detail) {
    causes.push_back(krm::field_invalid(field, Json(path), detail));
  };
  if (path == "//") {
    refuse("segment[0] may not be empty");
    return;
  }
  if (path.front() != '/') {
    refuse("must start with a '/'");
  }
  std::string_view steps = std::string_view(path).substr(1);
  if (steps.ends_with('/')) {
    steps.remove_suffix(1);
  }
  std::size_t i = 0;
  for (const std::string_view step : split(steps, '/')) {
    const std::string segment = "segment[" + std::to_string(i++) + "]";
    if (step.empty()) {
      refuse(segment + " may not be empty");
      continue;
    }
    for (const std::string& fault : krm::check_dns1123_subdomain(step)) {
      refuse(segment + ": " + fault);
    }
  }
}

/// The reference takes one of name and namespace for the other when it says which is missing.
void check_service(const Json& service, const std::string& field, std::vector<Cause>& causes) {
  if (service.text({"namespace"}).empty()) {
    causes.push_back(krm::field_required(field + ".name"));
  }
  if (service.text({"name"}).empty()) {
    causes.push_back(krm::field_required(field + ".namespace"));
  }
  const Json* port = service.find("port");
  if (port != nullptr && port->is_integer() &&
      (port->as_integer() < 1 || port->as_integer() > kMaxPort)) {
    causes.push_back(krm::field_invalid(
        field + ".port", *port, "port is not valid: must be between 1 and 65535, inclusive"));
  }
  check_path(std::string(service.text({"path"})), field + ".path", causes);
}

void check_client(const Json& client, const std::string& field, std::vector<Cause>& causes) {
  const bool url = is_set(client, "url");
  if (url == is_set(client, "service")) {
    causes.push_back(krm::field_required(field, "exactly one of url or service is required"));
  } else if (url) {
    validate_webhook_url(*client.find("url"), field + ".url", causes);
  } else {
    check_service(*client.find("service"), field + ".service", causes);
  }
}

void check_review_versions(const Json& webhook, const std::string& field,
                           std::vector<Cause>& causes) {
  const Json::Array& versions = items(webhook, "admissionReviewVersions");
  if (versions.empty()) {
    causes.push_back(krm::field_required(field, "must specify one of v1, v1beta1"));
    return;
  }
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const std::string_view version = versions[i].as_string();
    if (!seen.insert(version).second) {
      causes.push_back(krm::field_invalid(at(field, i), versions[i], "duplicate version"));
      continue;
    }
    for (const std::string& fault : krm::check_dns1035_label(version)) {
      causes.push_back(krm::field_invalid(at(field, i), versions[i], fault));
    }
  }
  if (!seen.contains("v1") && !seen.contains("v1beta1")) {
    causes.push_back(krm::field_invalid(field, *webhook.find("admissionReviewVersions"),
                                        "must include at least one of v1, v1beta1"));
  }
}

void check_webhook(const Json& webhook, bool mutating, bool same_conditions,
                   const std::string& field, std::vector<Cause>& causes) {
  static const Texts& failure_policies = *new Texts{"Fail", "Ignore"};
  static const Texts& match_policies = *new Texts{"Equivalent", "Exact"};
  static const Texts& side_effects = *new Texts{"None", "NoneOnDryRun"};
  static const Texts& reinvocations = *new Texts{"IfNeeded", "Never"};
  check_name(webhook, field + ".name", causes);
  const Json::Array& rules = items(webhook, "rules");
  for (std::size_t i = 0; i < rules.size(); ++i) {
    validate_rule(rules[i], at(field + ".rules", i), causes);
  }
  check_choice(webhook, "failurePolicy", failure_policies, field, causes);
  check_choice(webhook, "matchPolicy", match_policies, field, causes);
  if (!is_set(webhook, "sideEffects")) {
    causes.push_back(
        krm::field_required(field + ".sideEffects", "must specify one of None, NoneOnDryRun"));
  }
  check_choice(webhook, "sideEffects", side_effects, field, causes);
  const Json* timeout = webhook.find("timeoutSeconds");
  if (timeout != nullptr && timeout->is_integer() &&
      (timeout->as_integer() < 1 || timeout->as_integer() > kMaxTimeout)) {
    causes.push_back(krm::field_invalid(field + ".timeoutSeconds", *timeout,
                                        "the timeout value must be between 1 and 30 seconds"));
  }
  check_selector(webhook, "namespaceSelector", field, causes);
  check_selector(webhook, "objectSelector", field, causes);
  if (mutating) {
    check_choice(webhook, "reinvocationPolicy", reinvocations, field, causes);
  }
  const Json* client = webhook.find("clientConfig");
  check_client(client == nullptr ? Json() : *client, field + ".clientConfig", causes);
  if (!same_conditions) {
    validate_match_conditions(webhook, field + ".matchConditions", causes);
  }
  check_review_versions(webhook, field + ".admissionReviewVersions", causes);
}

}  // namespace

void validate_webhooks(const Json& configuration, const Json* old, bool mutating,
                       std::vector<Cause>& causes) {
  const Json::Array& webhooks = items(configuration, "webhooks");
  bool same_conditions = old != nullptr && items(*old, "webhooks").size() == webhooks.size();
  for (std::size_t i = 0; same_conditions && i < webhooks.size(); ++i) {
    same_conditions = same_member(webhooks[i], items(*old, "webhooks")[i], "matchConditions");
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < webhooks.size(); ++i) {
    const std::string field = at("webhooks", i);
    check_webhook(webhooks[i], mutating, same_conditions, field, causes);
    const std::string name(webhooks[i].text({"name"}));
    if (!name.empty() && !names.insert(name).second) {
      causes.push_back(krm::field_duplicate(field + ".name", Json(name)));
    }
  }
}

void warn_of_services(const Json& configuration, std::vector<std::string>& warnings) {
  const Json::Array& webhooks = items(configuration, "webhooks");
  for (std::size_t i = 0; i < webhooks.size(); ++i) {
    const Json* service = webhooks[i].at({"clientConfig", "service"});
    if (service != nullptr && !service->is_null()) {
      warnings.push_back(at("webhooks", i) +
                         ".clientConfig.service: there are no services here, the webhook cannot be "
                         "called; clientConfig.url can");
    }
  }
}

}  // namespace kintsugi::kinds
