#include "workers/eventing/model/consumer_report.h"

#include "workers/runtime/status/conditions.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kContractType = "Contract", kBindType = "Bind", kReadyType = "Ready";

Condition contract_condition(const ConsumerFacts& facts) {
  Condition out{kContractType, ConditionStatus::kTrue, "Contract", "", facts.generation};
  if (!facts.fault.empty()) {
    out.status = ConditionStatus::kFalse;
    out.reason = facts.filter_unsupported ? "FilterUnsupported" : "ReconcileContract";
    out.message = facts.fault;
  } else if (!facts.in_contract) {
    out.status = ConditionStatus::kUnknown;
    out.reason = "ReconcileContract";
    out.message = "pod " + facts.pod + " does not say yet that it has it";
  }
  return out;
}

Condition bind_condition(const ConsumerFacts& facts) {
  Condition out{kBindType, ConditionStatus::kFalse, "", "", facts.generation};
  if (!facts.pod_exists) {
    out.reason = "ConsumerBinding";
    out.message = "pod " + facts.pod + " does not exist";
  } else if (facts.bound) {
    out.status = ConditionStatus::kTrue;
    out.reason = "Bound";
  } else {
    out.reason = "BindInProgress";
    out.message = "pod " + facts.pod + " has not the placement";
  }
  return out;
}

}  // namespace

void set_consumer_status(Json& status, const ConsumerFacts& facts, std::string_view now) {
  const ConditionRules rules{{kContractType, kBindType, kReadyType}, nullptr};
  const Condition contract = contract_condition(facts), bind = bind_condition(facts);
  const Condition& first = contract.status == ConditionStatus::kTrue ? bind : contract;
  const bool ready = first.status == ConditionStatus::kTrue;
  const Condition last{kReadyType, ready ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                       ready ? std::string_view("Ready") : first.reason, first.message,
                       facts.generation};
  for (const Condition* const one : {&contract, &bind, &last}) {
    set_condition(status, rules, *one, now);
  }
  status["observedGeneration"] = facts.generation;
  set_or_erase(status, "subscriberUri", facts.subscriber);
  set_or_erase(status, "subscriberCACerts", facts.subscriber_ca_certs);
  set_or_erase(status, "deadLetterSinkUri", facts.dead_letter);
  set_or_erase(status, "deadLetterSinkCACerts", facts.dead_letter_ca_certs);
}

}  // namespace kintsugi::workers
