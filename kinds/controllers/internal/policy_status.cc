#include "kinds/controllers/internal/policy_status.h"

#include <optional>
#include <utility>

#include "kinds/policies/policy_names.h"
#include "kinds/policies/type_check.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

std::int64_t number(const Json& object, std::initializer_list<std::string_view> path) {
  const Json* found = object.at(path);
  return found == nullptr ? 0 : found->as_integer();
}

bool is_due(const Json& policy) {
  return number(policy, {"metadata", "generation"}) >
         number(policy, {"status", "observedGeneration"});
}

}  // namespace

PolicyStatus::PolicyStatus(const apiserver::ControllerContext& context)
    : apiserver::ControllerBase(context, "validatingadmissionpolicy-status-controller") {}

void PolicyStatus::start() {
  follow(kAdmissionGroup, kPolicies, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      note(change.cluster, *change.object);
    }
  });
}

void PolicyStatus::add_cluster(std::string_view cluster) {
  reader().list(cluster, kAdmissionGroup, kPolicies, "", [&](const Json& policy) {
    note(cluster, policy);
    return true;
  });
}

void PolicyStatus::note(std::string_view cluster, const Json& policy) {
  if (is_due(policy)) {
    queue_.add(apiserver::ObjectKey{std::string(cluster), std::string(kAdmissionGroup),
                                    std::string(kPolicies), "",
                                    std::string(policy.text({"metadata", "name"}))}
                   .pack());
  }
}

void PolicyStatus::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  std::optional<Json> policy = get(key);
  if (!policy || !is_due(*policy) || apiserver::is_deleted(*policy)) {
    finished(true);
    return;
  }
  Json checked = Json::object();
  for (ExpressionWarning& warning : check_policy_types(*policy, context_.registry, key.cluster)) {
    checked["expressionWarnings"].push_back(Json::object(
        {{"fieldRef", std::move(warning.field)}, {"warning", std::move(warning.warning)}}));
  }
  Json& status = (*policy)["status"];
  status["typeChecking"] = std::move(checked);
  status["observedGeneration"] = *policy->at({"metadata", "generation"});
  update(key, "status", std::move(*policy), [finished = std::move(finished)](Expected<Json> done) {
    finished(done || done.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::kinds
