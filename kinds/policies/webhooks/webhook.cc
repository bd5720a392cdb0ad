#include "kinds/policies/webhooks/internal/webhook.h"

#include <utility>

#include "base/strings.h"

namespace kintsugi::kinds {

using krm::Json;

Webhook::Webhook(std::string in_configuration, bool is_mutating, const Json& webhook)
    : configuration(std::move(in_configuration)),
      name(webhook.text({"name"})),
      mutating(is_mutating),
      url(webhook.text({"clientConfig", "url"})),
      matches(MatchResources::of_webhook(webhook)),
      ignores_failure(webhook.text({"failurePolicy"}) == "Ignore"),
      reinvoked(webhook.text({"reinvocationPolicy"}) == "IfNeeded"),
      environment(false) {
  ca_pem = base64_decode(webhook.text({"clientConfig", "caBundle"})).value_or("");
  const std::string_view effects = webhook.text({"sideEffects"});
  allows_dry_run = effects == "None" || effects == "NoneOnDryRun";
  const Json* limit = webhook.find("timeoutSeconds");
  timeout = seconds(limit == nullptr ? 10 : limit->as_integer());
  if (const Json* versions = webhook.find("admissionReviewVersions")) {
    for (const Json& version : versions->items()) {
      if (review_version.empty() &&
          (version.as_string() == "v1" || version.as_string() == "v1beta1")) {
        review_version = version.as_string();
      }
    }
  }
  if (const Json* list = webhook.find("matchConditions")) {
    for (const Json& condition : list->items()) {
      PolicyExpression out;
      out.source = trim(condition.text({"expression"}));
      cel::ExpressionFault fault;
      out.program = environment.compile(out.source, cel::ResultType::kBool, {false, true}, fault);
      out.fault = std::move(fault.detail);
      conditions.push_back(std::move(out));
    }
  }
}

}  // namespace kintsugi::kinds
