#include "kinds/policies/policy_admission.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kinds/policies/internal/access_cache.h"
#include "kinds/policies/internal/evaluate.h"
#include "kinds/policies/internal/params.h"
#include "kinds/policies/internal/policy_request.h"
#include "kinds/policies/internal/surroundings.h"
#include "kinds/policies/internal/write_subject.h"
#include "krm/annotations.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

Errc code_of(std::string_view reason) {
  return reason == "Forbidden"               ? Errc::kForbidden
         : reason == "Unauthorized"          ? Errc::kUnauthorized
         : reason == "RequestEntityTooLarge" ? Errc::kRequestEntityTooLarge
                                             : Errc::kInvalid;
}

std::string failure_note(const PolicyOutcome::Refusal& refusal, const PolicyBinding& binding) {
  std::string out =
      "[{\"message\":" + Json(refusal.message).dump() +
      ",\"policy\":" + Json(binding.policy).dump() + ",\"binding\":" + Json(binding.name).dump() +
      ",\"expressionIndex\":" + std::to_string(refusal.index) + ",\"validationActions\":[";
  for (const std::string& action : binding.actions) {
    out += (out.back() == '[' ? "" : ",") + Json(action).dump();
  }
  return out + "]}]";
}

/// One write on its way through the policies of its cluster.
class PolicyCheck : public std::enable_shared_from_this<PolicyCheck> {
 public:
  /// @param rules  the logical cluster whose policies, bindings and parameters hold
  PolicyCheck(const AdmissionSurroundings& around, PolicyIndex& policies, std::string rules,
              apiserver::PendingWritePtr write, apiserver::Review review,
              std::function<void(Expected<void>)> done)
      : around_(around),
        rules_(std::move(rules)),
        write_(std::move(write)),
        review_(std::move(review)),
        done_(std::move(done)),
        request_(policy_request(*write_, review_)),
        subject_(around.registry, around.reader, *write_, request_),
        notes_before_(write_->notes),
        hooks_(policies.hooks(rules_)),
        access_(std::make_shared<AccessCache>(around.authorizer, write_->user, write_->cluster)) {}

  void start() {
    if (review_.has_one_form) {
      Form& form = forms_[form_key(request_.resource)];
      form.object = copy_of(review_.object.get());
      form.old = copy_of(review_.old.get());
    }
    match(review_.object.get(), review_.old.get());
  }

 private:
  /// The objects in one version.
  struct Form {
    apiserver::ServedKindPtr kind;
    std::optional<Json> object, old;
    std::string fault;  ///< why there is no such form
  };
  struct Invocation {
    CompiledPolicyPtr policy;
    PolicyBindingPtr binding;
    GroupVersionName resource;
    ParamSet params;
  };
  struct Denial {
    std::string message, reason;
  };
  /// The invocation that is being evaluated.
  struct Current {
    Json document, condition_document;
    PolicyInput input;
    std::uint64_t steps = cel::kPolicySteps;  ///< that all its parameters may do
    std::size_t params = 0;                   ///< which of them it is
    std::unique_ptr<PolicyRun> run;           ///< with these; null: not begun
  };

  static std::optional<Json> copy_of(const Json* object) {
    return object == nullptr ? std::nullopt : std::optional(*object);
  }

  [[nodiscard]] const apiserver::ObjectReader& reader() const { return around_.reader; }

  void match(const Json* object, const Json* old) {
    const AdmissionSubject seen = subject_.of(object, old);
    for (const PolicyIndex::Hook& hook : *hooks_) {
      match_policy(hook, seen);
    }
    if (invocations_.empty()) {
      evaluate();
      return;
    }
    make_forms();
  }

  void match_policy(const PolicyIndex::Hook& hook, const AdmissionSubject& seen) {
    const CompiledPolicy& policy = *hook.policy;
    const Expected<std::optional<GroupVersionName>> matched = policy.constraints.match(seen);
    if (!matched) {
      misconfigured(policy, nullptr, std::string(matched.error().message()));
      return;
    }
    if (!*matched) {
      return;
    }
    const ParamSource source(around_.registry, reader(), rules_, policy.param_kind);
    if (!source.is_known()) {
      misconfigured(policy, nullptr, source.unknown_text());
      return;
    }
    for (const PolicyBindingPtr& binding : hook.bindings) {
      const Expected<std::optional<GroupVersionName>> bound = binding->resources.match(seen);
      if (!bound) {
        misconfigured(policy, binding.get(), std::string(bound.error().message()));
        continue;
      }
      if (!*bound) {
        continue;
      }
      Expected<ParamSet> params = source.collect(binding->params, request_.ns);
      if (!params) {
        misconfigured(policy, binding.get(), std::string(params.error().message()));
      } else if (!params->empty()) {
        invocations_.push_back({hook.policy, binding, **matched, std::move(*params)});
      }
    }
  }

  static std::string denial_text(const CompiledPolicy& policy, const PolicyBinding* binding,
                                 std::string_view message) {
    std::string out = "ValidatingAdmissionPolicy '" + policy.name + "'";
    if (binding != nullptr) {
      out += " with binding '" + binding->name + "'";
    }
    return out.append(" denied request: ").append(message);
  }

  void misconfigured(const CompiledPolicy& policy, const PolicyBinding* binding,
                     const std::string& why) {
    if (!policy.ignores_failure) {
      const char* what =
          binding == nullptr ? "failed to configure policy: " : "failed to configure binding: ";
      configuration_.push_back({denial_text(policy, binding, what + why), ""});
    }
  }

  static std::string form_key(const GroupVersionName& resource) {
    return resource.group + "/" + resource.version;
  }

  /// The objects in every version that is asked for.
  void make_forms() {
    if (review_.has_one_form) {
      evaluate();
      return;
    }
    converting_ = 1;  // until all have begun
    for (const Invocation& invocation : invocations_) {
      Form& form = forms_[form_key(invocation.resource)];
      if (form.kind != nullptr) {
        continue;
      }
      form.kind = subject_.kind_of(invocation.resource);
      convert(form, review_.object.get(), &Form::object);
      convert(form, review_.old.get(), &Form::old);
    }
    one_converted();
  }

  void convert(Form& form, const Json* object, std::optional<Json> Form::*member) {
    if (object == nullptr) {
      return;
    }
    ++converting_;
    write_->convert(
        *object, form.kind, [self = shared_from_this(), &form, member](Expected<Json> converted) {
          if (converted) {
            hide_cluster(*converted);
            form.*member = std::move(*converted);
          } else {
            form.fault =
                "failed to convert object version: " + std::string(converted.error().message());
          }
          self->one_converted();
        });
  }

  void one_converted() {
    if (--converting_ == 0) {
      evaluate();
    }
  }

  /// Runs all of them; again when the authorizer had to be waited for.
  void evaluate() {
    current_.reset();
    denials_ = std::move(configuration_);
    configuration_ = denials_;
    write_->notes = notes_before_;
    if (!invocations_.empty() && !request_.ns.empty() && request_.resource.name != "namespaces") {
      const Expected<const Json*> found = subject_.namespace_object();
      if (!found) {
        finish(found.error().clone());
        return;
      }
      namespace_document_ = namespace_document(**found);
    }
    evaluate_from(0);
  }

  /// Lets other requests in between expressions that take their time.
  void evaluate_from(std::size_t first) {
    const EvaluationTurn is_enough;
    for (std::size_t i = first; i < invocations_.size(); ++i) {
      if (!go_on(invocations_[i], is_enough)) {
        around_.later([self = shared_from_this(), i] { self->evaluate_from(i); });
        return;
      }
    }
    if (!access_->evaluates_again(++rounds_, [self = shared_from_this()] { self->evaluate(); })) {
      decide();
    }
  }

  /// False: it has begun, and is not over.
  bool go_on(const Invocation& invocation, const std::function<bool()>& is_enough) {
    if (current_ == nullptr && !begin(invocation)) {
      return true;
    }
    Current& now = *current_;
    for (; now.params < invocation.params.size(); ++now.params) {
      if (now.run == nullptr) {
        const std::optional<Json>& params = invocation.params[now.params];
        now.input.params = params ? &*params : nullptr;
        now.run = std::make_unique<PolicyRun>(*invocation.policy, now.input);
      }
      if (!now.run->go_on(is_enough)) {
        return false;
      }
      note(invocation, now.run->take());
      now.run.reset();
    }
    current_.reset();
    return true;
  }

  /// False: there is nothing to evaluate.
  bool begin(const Invocation& invocation) {
    const Form& form =
        review_.has_one_form ? forms_.begin()->second : forms_[form_key(invocation.resource)];
    const PolicyBinding& binding = *invocation.binding;
    if (!form.fault.empty()) {
      if (!invocation.policy->ignores_failure) {
        denials_.push_back({denial_text(*invocation.policy, &binding,
                                        "failed to configure binding: " + form.fault),
                            ""});
      }
      return false;
    }
    GroupVersionName kind = request_.kind;
    if (form.kind != nullptr) {
      kind = {form.kind->def->group, form.kind->version->name, form.kind->def->kind};
    }
    current_ = std::make_unique<Current>();
    current_->document = request_.document(invocation.resource, kind);
    current_->condition_document = request_.document(request_.resource, kind);
    PolicyInput& input = current_->input;
    input.object = form.object ? &*form.object : nullptr;
    input.old_object = form.old ? &*form.old : nullptr;
    input.request = &current_->document;
    input.condition_request = &current_->condition_document;
    input.namespace_object = namespace_document_ ? &*namespace_document_ : nullptr;
    input.authorizer = access_.get();
    input.steps = &current_->steps;
    input.request_resource = request_.access_question();
    return true;
  }

  void note(const Invocation& invocation, PolicyOutcome outcome) {
    const CompiledPolicy& policy = *invocation.policy;
    const PolicyBinding& binding = *invocation.binding;
    for (PolicyOutcome::Refusal& refusal : outcome.refusals) {
      for (const std::string& action : binding.actions) {
        if (action == "Deny") {
          denials_.push_back({denial_text(policy, &binding, refusal.message), refusal.reason});
        } else if (action == "Warn") {
          write_->notes.warnings.push_back("Validation failed for ValidatingAdmissionPolicy '" +
                                           policy.name + "' with binding '" + binding.name +
                                           "': " + refusal.message);
        } else {
          annotate(std::string(krm::kValidationFailureNote), failure_note(refusal, binding), false);
        }
      }
    }
    for (PolicyOutcome::Refusal& denial : outcome.denials) {
      denials_.push_back({denial_text(policy, &binding, denial.message), denial.reason});
    }
    for (PolicyOutcome::Annotation& annotation : outcome.annotations) {
      annotate(policy.name + "/" + annotation.key, annotation.value, true);
    }
  }

  /// The first value of a key stays; those of one policy are joined.
  void annotate(std::string key, std::string value, bool joined) {
    for (auto& [known, text] : write_->notes.annotations) {
      if (known == key) {
        if (joined && text != value) {
          text += ", " + value;
        }
        return;
      }
    }
    write_->notes.annotations.emplace_back(std::move(key), std::move(value));
  }

  void decide() {
    if (denials_.empty()) {
      done_({});
      return;
    }
    const Denial& first = denials_.front();
    const apiserver::ResourceDef& def = *write_->kind->def;
    const std::string name = request_.name.empty() ? "Unknown" : request_.name;
    ErrorDetail detail = krm::forbidden(def.group, def.plural, name, first.message).detail();
    detail.causes.push_back({"", first.message, ""});
    finish(Error(code_of(first.reason), std::move(detail)));
  }

  void finish(Error error) { done_(fail(std::move(error))); }

  const AdmissionSurroundings around_;
  const std::string rules_;
  const apiserver::PendingWritePtr write_;
  const apiserver::Review review_;
  std::function<void(Expected<void>)> done_;
  const PolicyRequest request_;
  WriteSubject subject_;
  const apiserver::PendingWrite::Notes notes_before_;
  std::shared_ptr<const std::vector<PolicyIndex::Hook>> hooks_;
  std::shared_ptr<AccessCache> access_;
  std::map<std::string, Form> forms_;
  std::size_t converting_ = 0;
  std::vector<Invocation> invocations_;
  std::vector<Denial> configuration_, denials_;
  std::optional<Json> namespace_document_;
  std::unique_ptr<Current> current_;
  int rounds_ = 0;
};

}  // namespace

void PolicyAdmission::start(apiserver::ApiServer& server) {
  server_ = &server;
  policies_.start(server);
}

bool PolicyAdmission::concerns(const apiserver::PendingWrite& write) const {
  return !policies_.empty() && scope_.includes(write) && policies_.has(scope_.cluster_of(write));
}

void PolicyAdmission::review(const apiserver::PendingWritePtr& write, apiserver::Review review,
                             std::function<void(Expected<void>)> done) {
  std::make_shared<PolicyCheck>(
      AdmissionSurroundings{loop_, alive_.weak(), registry_, server_->reader(), authorizer_},
      policies_, scope_.cluster_of(*write), write, std::move(review), std::move(done))
      ->start();
}

}  // namespace kintsugi::kinds
