#include "kinds/policies/internal/evaluate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cel/rules.h"

namespace kintsugi::kinds {
namespace {

using cel::AdmissionResult;
using Kind = AdmissionResult::Kind;

constexpr std::size_t kMaxMessage = 5 * 1024;
constexpr std::size_t kMaxAnnotation = 10 * 1024;
constexpr const char* kOutOfBudget =
    "validation failed due to running out of cost budget, no further validation rules will be run";

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? std::string()
             : std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

/// Expressions that share a budget and the variables that they read.
class Run {
 public:
  Run(const cel::AdmissionEnvironment& environment, const cel::AdmissionInput& input,
      std::uint64_t budget, std::uint64_t* steps)
      : evaluation_(environment, input), budget_(budget), steps_(steps) {}

  /// An error says which expression failed. nullopt: the budget is used up.
  std::optional<AdmissionResult> evaluate(const PolicyExpression& expression) {
    AdmissionResult out;
    if (expression.program == nullptr) {
      out.text = "compilation error: " + expression.fault;
      return out;
    }
    if (steps_ == nullptr) {
      out = evaluation_.evaluate(*expression.program);
    } else {
      out = evaluation_.evaluate(*expression.program, *steps_);
      *steps_ -= std::min(*steps_, out.steps);
    }
    if (out.cost > budget_ || (steps_ != nullptr && *steps_ == 0)) {
      budget_ = 0;
      return std::nullopt;
    }
    budget_ -= out.cost;
    if (out.kind == Kind::kError) {
      out.text = "expression '" + expression.source + "' resulted in error: " + out.text;
    }
    return out;
  }

  [[nodiscard]] std::uint64_t budget() const { return budget_; }

 private:
  cel::AdmissionEvaluation evaluation_;
  std::uint64_t budget_;
  std::uint64_t* steps_;  ///< of the request; null: not counted
};

}  // namespace

cel::AdmissionInput admission_input(const PolicyInput& input, const krm::Json* request,
                                    const krm::Json* namespace_object, bool authorizer) {
  cel::AdmissionInput out;
  out.object = input.object;
  out.old_object = input.old_object;
  out.request = request;
  out.namespace_object = namespace_object;
  out.params = input.params;
  out.authorizer = authorizer ? input.authorizer : nullptr;
  out.request_resource = input.request_resource;
  return out;
}

MatchOutcome evaluate_conditions(const cel::AdmissionEnvironment& environment,
                                 const std::vector<PolicyExpression>& conditions,
                                 const cel::AdmissionInput& input, std::uint64_t* steps) {
  if (conditions.empty()) {
    return {true, ""};
  }
  Run run(environment, input, cel::kMatchLimit, steps);
  std::vector<std::string> errors;
  bool refused = false;
  for (const PolicyExpression& condition : conditions) {
    std::optional<AdmissionResult> result = run.evaluate(condition);
    if (!result) {
      return {false, kOutOfBudget};
    }
    if (result->kind == Kind::kError) {
      if (std::find(errors.begin(), errors.end(), result->text) == errors.end()) {
        errors.push_back(std::move(result->text));
      }
    } else if (result->kind == Kind::kFalse) {
      refused = true;
    }
  }
  if (refused || errors.empty()) {
    return {!refused, ""};
  }
  std::string all;
  for (const std::string& error : errors) {
    all += (all.empty() ? "" : ", ") + error;
  }
  return {false, errors.size() == 1 ? all : "[" + all + "]"};
}

namespace {

class Validator {
 public:
  Validator(const CompiledPolicy& policy, const PolicyInput& input)
      : policy_(policy), input_(input) {}

  PolicyOutcome run() {
    if (matches() && validate()) {
      annotate();
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] cel::AdmissionInput values(const krm::Json* request, const krm::Json* ns,
                                           bool authorizer) const {
    return admission_input(input_, request, ns, authorizer);
  }

  /// An evaluation that failed, under the policy's failurePolicy.
  void failed(std::size_t index, std::string message) {
    if (!policy_.ignores_failure) {
      out_.refusals.push_back({index, std::move(message), ""});
    }
  }

  bool matches() {
    MatchOutcome outcome =
        evaluate_conditions(policy_.environment, policy_.conditions,
                            values(input_.condition_request, nullptr, true), input_.steps);
    if (!outcome.fault.empty()) {
      failed(0, std::move(outcome.fault));
    }
    return outcome.matches;
  }

  bool validate() {
    Run run(policy_.environment, values(input_.request, input_.namespace_object, true),
            cel::kObjectLimit, input_.steps);
    std::vector<AdmissionResult> results;
    bool fine = true;
    for (const PolicyValidation& validation : policy_.validations) {
      std::optional<AdmissionResult> result = run.evaluate(validation.expression);
      if (!result) {
        failed(0, kOutOfBudget);
        return false;
      }
      fine = fine && result->kind == Kind::kTrue;
      results.push_back(std::move(*result));
    }
    if (fine) {
      return true;
    }
    std::vector<std::string> messages;
    const bool afforded = make_messages(run.budget(), messages);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].kind == Kind::kError) {
        failed(i, std::move(results[i].text));
      } else if (!afforded) {
        failed(i, std::string("failed messageExpression: ") + kOutOfBudget);
      } else if (results[i].kind != Kind::kTrue) {
        const PolicyValidation& validation = policy_.validations[i];
        std::string message = std::move(messages[i]);
        message = message.empty() ? trimmed(validation.message) : message;
        out_.refusals.push_back({i,
                                 message.empty()
                                     ? "failed expression: " + trimmed(validation.expression.source)
                                     : message,
                                 validation.reason});
      }
    }
    return true;
  }

  /// What message expressions give, "" where there is nothing to be used. False: out of budget.
  bool make_messages(std::uint64_t budget, std::vector<std::string>& messages) {
    Run run(policy_.environment, values(input_.request, input_.namespace_object, false), budget,
            input_.steps);
    for (const PolicyValidation& validation : policy_.validations) {
      messages.emplace_back();
      if (!validation.message_expression) {
        continue;
      }
      const std::optional<AdmissionResult> result = run.evaluate(*validation.message_expression);
      if (!result) {
        return false;
      }
      std::string text = result->kind == Kind::kString ? trimmed(result->text) : std::string();
      if (text.size() <= kMaxMessage && text.find('\n') == std::string::npos) {
        messages.back() = std::move(text);
      }
    }
    return true;
  }

  void annotate() {
    if (policy_.annotations.empty()) {
      return;
    }
    Run run(policy_.environment, values(input_.request, input_.namespace_object, false),
            cel::kObjectLimit, input_.steps);
    for (const PolicyAnnotation& annotation : policy_.annotations) {
      std::optional<AdmissionResult> result = run.evaluate(annotation.value);
      if (!result) {
        out_ = {};
        failed(0, kOutOfBudget);
        return;
      }
      if (result->kind == Kind::kError) {
        if (!policy_.ignores_failure) {
          out_.denials.push_back({0, std::move(result->text), ""});
        }
      } else if (std::string value = trimmed(result->text);
                 result->kind == Kind::kString && !value.empty()) {
        value.resize(std::min(value.size(), kMaxAnnotation));
        out_.annotations.push_back({annotation.key, std::move(value)});
      }
    }
  }

  const CompiledPolicy& policy_;
  const PolicyInput& input_;
  PolicyOutcome out_;
};

}  // namespace

PolicyOutcome evaluate_policy(const CompiledPolicy& policy, const PolicyInput& input) {
  return Validator(policy, input).run();
}

}  // namespace kintsugi::kinds
