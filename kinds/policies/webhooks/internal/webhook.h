#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "cel/admission.h"
#include "kinds/policies/internal/compiled_policy.h"
#include "kinds/policies/internal/match.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// One webhook of a configuration, ready to be asked. Immutable. Threads: any.
struct Webhook {
  /// @param webhook  a valid entry of `webhooks`, defaulted.
  Webhook(std::string in_configuration, bool is_mutating, const krm::Json& webhook);

  std::string configuration, name;
  bool mutating = false;
  std::string url;     ///< "": a Service, and there are none
  std::string ca_pem;  ///< "": the machine's
  MatchResources matches;
  bool ignores_failure = false;
  bool allows_dry_run = false;
  bool reinvoked = false;  ///< when somebody changes the object after it
  Duration timeout{};
  std::string review_version;  ///< the first that is known here
  cel::AdmissionEnvironment environment;
  std::vector<PolicyExpression> conditions;
};
using WebhookPtr = std::shared_ptr<const Webhook>;

}  // namespace kintsugi::kinds
