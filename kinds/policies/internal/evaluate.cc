#include "kinds/policies/internal/evaluate.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "cel/rules.h"

namespace kintsugi::kinds {
namespace {

using cel::AdmissionResult;
using Kind = AdmissionResult::Kind;

constexpr std::size_t kMaxMessage = 5 * 1024;
constexpr std::size_t kMaxAnnotation = 10 * 1024;

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

/// False: it is enough, and there is more.
template <class Steps>
bool evaluate_steps(Steps& steps, const std::function<bool()>& is_enough) {
  while (!steps.is_over()) {
    steps.step();
    if (is_enough() && !steps.is_over()) {
      return false;
    }
  }
  return true;
}

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

/// What match conditions say together.
class ConditionRun::Impl {
 public:
  Impl(const cel::AdmissionEnvironment& environment,
       const std::vector<PolicyExpression>& conditions, const cel::AdmissionInput& input,
       std::uint64_t* steps)
      : conditions_(conditions), run_(environment, input, cel::kMatchLimit, steps) {}

  [[nodiscard]] bool is_over() const { return next_ == conditions_.size(); }

  void step() {
    std::optional<AdmissionResult> result = run_.evaluate(conditions_[next_++]);
    if (!result) {
      next_ = conditions_.size();
      is_afforded_ = false;
    } else if (result->kind != Kind::kError) {
      refused_ = refused_ || result->kind == Kind::kFalse;
    } else if (std::find(errors_.begin(), errors_.end(), result->text) == errors_.end()) {
      errors_.push_back(std::move(result->text));
    }
  }

  [[nodiscard]] MatchOutcome outcome() const {
    if (!is_afforded_) {
      return {false, kBudgetIsSpent};
    }
    if (refused_ || errors_.empty()) {
      return {!refused_, ""};
    }
    std::string all;
    for (const std::string& error : errors_) {
      all += (all.empty() ? "" : ", ") + error;
    }
    return {false, errors_.size() == 1 ? all : "[" + all + "]"};
  }

 private:
  const std::vector<PolicyExpression>& conditions_;
  Run run_;
  std::size_t next_ = 0;
  std::vector<std::string> errors_;
  bool refused_ = false, is_afforded_ = true;
};

ConditionRun::ConditionRun(const cel::AdmissionEnvironment& environment,
                           const std::vector<PolicyExpression>& conditions,
                           const cel::AdmissionInput& input, std::uint64_t* steps)
    : impl_(std::make_unique<Impl>(environment, conditions, input, steps)) {}

ConditionRun::~ConditionRun() = default;

bool ConditionRun::go_on(const std::function<bool()>& is_enough) {
  return evaluate_steps(*impl_, is_enough);
}

MatchOutcome ConditionRun::take() { return impl_->outcome(); }

/// Kubernetes' validator.go, an expression at a time.
class PolicyRun::Impl {
 public:
  Impl(const CompiledPolicy& policy, const PolicyInput& input) : policy_(policy), input_(input) {}

  [[nodiscard]] bool is_over() const { return phase_ == Phase::kOver; }
  PolicyOutcome take() { return std::move(out_); }

  void step() {
    switch (phase_) {
      case Phase::kConditions:
        return match();
      case Phase::kValidations:
        return validate();
      case Phase::kMessages:
        return make_message();
      case Phase::kAnnotations:
        return annotate();
      case Phase::kOver:
        return;
    }
  }

 private:
  enum class Phase : std::uint8_t { kConditions, kValidations, kMessages, kAnnotations, kOver };

  void begin(Phase phase, std::uint64_t budget) {
    if (phase == Phase::kAnnotations && policy_.annotations.empty()) {
      phase_ = Phase::kOver;
      return;
    }
    phase_ = phase;
    next_ = 0;
    const bool judges = phase == Phase::kValidations;
    run_.emplace(policy_.environment, values(input_.request, input_.namespace_object, judges),
                 budget, input_.steps);
  }

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

  void match() {
    if (!conditions_ && policy_.conditions.empty()) {
      end_match({true, ""});
      return;
    }
    if (!conditions_) {
      conditions_.emplace(policy_.environment, policy_.conditions,
                          values(input_.condition_request, nullptr, true), input_.steps);
    }
    if (conditions_->go_on([] { return true; })) {
      end_match(conditions_->take());
    }
  }

  void end_match(MatchOutcome outcome) {
    if (!outcome.fault.empty()) {
      failed(0, std::move(outcome.fault));
    }
    if (outcome.matches) {
      begin(Phase::kValidations, cel::kObjectLimit);
    } else {
      phase_ = Phase::kOver;
    }
  }

  void validate() {
    if (next_ == policy_.validations.size()) {
      const bool fine =
          std::all_of(results_.begin(), results_.end(),
                      [](const AdmissionResult& result) { return result.kind == Kind::kTrue; });
      const std::uint64_t budget = run_->budget();
      begin(fine ? Phase::kAnnotations : Phase::kMessages, fine ? cel::kObjectLimit : budget);
      return;
    }
    std::optional<AdmissionResult> result = run_->evaluate(policy_.validations[next_++].expression);
    if (!result) {
      failed(0, kBudgetIsSpent);
      phase_ = Phase::kOver;
      return;
    }
    results_.push_back(std::move(*result));
  }

  /// What a message expression gives, "" where there is nothing to be used.
  void make_message() {
    if (next_ == policy_.validations.size()) {
      refuse(true);
      return;
    }
    const PolicyValidation& validation = policy_.validations[next_++];
    messages_.emplace_back();
    if (!validation.message_expression) {
      return;
    }
    const std::optional<AdmissionResult> result = run_->evaluate(*validation.message_expression);
    if (!result) {
      refuse(false);
      return;
    }
    std::string text = result->kind == Kind::kString ? trimmed(result->text) : std::string();
    if (text.size() <= kMaxMessage && text.find('\n') == std::string::npos) {
      messages_.back() = std::move(text);
    }
  }

  /// @param afforded  the budget was enough for all message expressions
  void refuse(bool afforded) {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].kind == Kind::kError) {
        failed(i, std::move(results_[i].text));
      } else if (!afforded) {
        failed(i, std::string("failed messageExpression: ") + kBudgetIsSpent);
      } else if (results_[i].kind != Kind::kTrue) {
        const PolicyValidation& validation = policy_.validations[i];
        std::string message = std::move(messages_[i]);
        message = message.empty() ? trimmed(validation.message) : message;
        out_.refusals.push_back({i,
                                 message.empty()
                                     ? "failed expression: " + trimmed(validation.expression.source)
                                     : message,
                                 validation.reason});
      }
    }
    begin(Phase::kAnnotations, cel::kObjectLimit);
  }

  void annotate() {
    if (next_ == policy_.annotations.size()) {
      phase_ = Phase::kOver;
      return;
    }
    const PolicyAnnotation& annotation = policy_.annotations[next_++];
    std::optional<AdmissionResult> result = run_->evaluate(annotation.value);
    if (!result) {
      out_ = {};
      failed(0, kBudgetIsSpent);
      phase_ = Phase::kOver;
    } else if (result->kind == Kind::kError) {
      if (!policy_.ignores_failure) {
        out_.denials.push_back({0, std::move(result->text), ""});
      }
    } else if (std::string value = trimmed(result->text);
               result->kind == Kind::kString && !value.empty()) {
      value.resize(std::min(value.size(), kMaxAnnotation));
      out_.annotations.push_back({annotation.key, std::move(value)});
    }
  }

  const CompiledPolicy& policy_;
  const PolicyInput input_;
  Phase phase_ = Phase::kConditions;
  std::size_t next_ = 0;                    // expression of the phase
  std::optional<ConditionRun> conditions_;  // null: not begun
  std::optional<Run> run_;
  std::vector<AdmissionResult> results_;  // of the validations
  std::vector<std::string> messages_;
  PolicyOutcome out_;
};

PolicyRun::PolicyRun(const CompiledPolicy& policy, const PolicyInput& input)
    : impl_(std::make_unique<Impl>(policy, input)) {}

PolicyRun::~PolicyRun() = default;

bool PolicyRun::go_on(const std::function<bool()>& is_enough) {
  return evaluate_steps(*impl_, is_enough);
}

PolicyOutcome PolicyRun::take() { return impl_->take(); }

}  // namespace kintsugi::kinds
