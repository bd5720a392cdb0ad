#include "kinds/policies/mutating/policy_mutations.h"

#include <utility>

#include "cel/rules.h"
#include "krm/annotations.h"
#include "krm/apply.h"
#include "krm/go_text.h"
#include "krm/json_patch.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

/// What a JSON patch makes of an object; one whose `test` fails changes nothing.
Expected<Json> patched(const Json& object, const Json& patch) {
  const Expected<krm::JsonPatch> parsed = krm::JsonPatch::parse(patch.dump());
  if (!parsed) {
    return fail(Errc::kInvalid, "JSON Patch: " + std::string(parsed.error().message()));
  }
  std::string why;
  Expected<Json> made = parsed->apply(object, &why);
  if (made) {
    return made;
  }
  if (why.find("testing value") != std::string::npos) {
    return object;
  }
  return fail(Errc::kInvalid, "JSON Patch: " + why);
}

}  // namespace

PolicyMutations::PolicyMutations(AdmissionSurroundings around, std::string rules, Hooks hooks,
                                 apiserver::PendingWritePtr write,
                                 std::shared_ptr<WriteForms> forms)
    : around_(std::move(around)),
      rules_(std::move(rules)),
      hooks_(std::move(hooks)),
      write_(std::move(write)),
      forms_(std::move(forms)),
      request_(policy_request(*write_, forms_->review())),
      subject_(around_.registry, around_.reader, *write_, request_),
      access_(std::make_shared<AccessCache>(around_.authorizer, write_->user, write_->cluster)) {}

void PolicyMutations::failed(const MutatingPolicy& policy, const PolicyBinding* binding,
                             std::string_view why, bool configuration) {
  if (policy.ignores_failure) {
    return;
  }
  std::string text = binding == nullptr
                         ? "policy " + krm::go_quote(policy.name)
                         : "policy '" + policy.name + "' with binding '" + binding->name + "'";
  faults_.push_back({text.append(" denied request: ").append(why), configuration});
}

std::vector<PolicyMutations::Invocation> PolicyMutations::find() {
  std::vector<Invocation> out;
  const apiserver::Review& review = forms_->review();
  const AdmissionSubject seen = subject_.of(review.object.get(), review.old.get());
  for (const MutatingPolicyIndex::Hook& hook : *hooks_) {
    const MutatingPolicy& policy = *hook.policy;
    const Expected<std::optional<GroupVersionName>> matched = policy.constraints.match(seen);
    if (!matched || !*matched) {
      if (!matched) {
        failed(policy, nullptr,
               "failed to configure policy: " + std::string(matched.error().message()), true);
      }
      continue;
    }
    const ParamSource source(around_.registry, around_.reader, rules_, policy.param_kind);
    if (!source.is_known()) {
      failed(policy, nullptr, "failed to configure policy: " + source.unknown_text(), true);
      continue;
    }
    for (const PolicyBindingPtr& binding : hook.bindings) {
      const Expected<std::optional<GroupVersionName>> bound = binding->resources.match(seen);
      Expected<ParamSet> params =
          bound && *bound ? source.collect(binding->params, request_.ns) : ParamSet();
      if (!bound || !params) {
        const Error& why = bound ? params.error() : bound.error();
        failed(policy, binding.get(), "failed to configure binding: " + std::string(why.message()),
               true);
        continue;
      }
      for (std::optional<Json>& param : *params) {
        std::string key = policy.name + "\n" + binding->name;
        if (param) {
          key += "\n" + std::string(param->text({"metadata", "namespace"})) + "/" +
                 std::string(param->text({"metadata", "name"}));
        }
        out.push_back({hook.policy, binding, **matched, std::move(param), std::move(key)});
      }
    }
  }
  return out;
}

void PolicyMutations::run(bool again, std::function<void(const Expected<bool>&)> done) {
  again_ = again;
  changed_ = false;
  done_ = std::move(done);
  faults_.clear();
  if (forms_->object() == nullptr) {  // there is nothing to change
    done_(false);
    return;
  }
  invocations_ = find();
  if (!invocations_.empty() && !request_.ns.empty() && request_.resource.name != "namespaces") {
    const Expected<const Json*> found = subject_.namespace_object();
    if (!found) {
      done_(fail(found.error().clone()));
      return;
    }
    namespace_document_ = namespace_document(**found);
  }
  begin(0);
}

void PolicyMutations::object_changed() {
  asked_again_.merge(asked_before_);
  asked_before_.clear();
}

/// In a turn of its own, as there may be many.
void PolicyMutations::go_on(std::size_t i) {
  around_.later([self = shared_from_this(), i] { self->begin(i); });
}

void PolicyMutations::next_step(std::size_t i, std::size_t step) {
  around_.later([self = shared_from_this(), i, step] { self->mutate(i, step + 1, 0); });
}

Json PolicyMutations::document(const Invocation& invocation, const WriteForms::Form& form,
                               bool matched) const {
  GroupVersionName kind = request_.kind;
  if (form.kind != nullptr) {
    kind = {form.kind->def->group, form.kind->version->name, form.kind->def->kind};
  }
  return request_.document(matched ? invocation.resource : request_.resource, kind);
}

PolicyInput PolicyMutations::input(const Invocation& invocation, const WriteForms::Form& form,
                                   const Json* object, const Json* request) {
  PolicyInput out;
  out.object = object;
  out.old_object = form.old.get();
  out.request = out.condition_request = request;
  out.namespace_object = namespace_document_ ? &*namespace_document_ : nullptr;
  out.params = invocation.params ? &*invocation.params : nullptr;
  out.authorizer = access_.get();
  out.request_resource = request_.access_question();
  return out;
}

void PolicyMutations::begin(std::size_t i) {
  while (i < invocations_.size() && again_ && !asked_again_.contains(invocations_[i].key)) {
    ++i;
  }
  if (i == invocations_.size()) {
    finish();
    return;
  }
  invocation_changed_ = false;
  match(i, 0);
}

void PolicyMutations::match(std::size_t i, int rounds) {
  const Invocation& invocation = invocations_[i];
  if (invocation.policy->conditions.empty()) {
    mutate(i, 0, 0);
    return;
  }
  forms_->get(subject_.kind_of(invocation.resource), [self = shared_from_this(), i, rounds](
                                                         Expected<const WriteForms::Form*> form) {
    const Invocation& asked = self->invocations_[i];
    const MutatingPolicy& policy = *asked.policy;
    if (!form) {
      self->failed(policy, asked.binding.get(), form.error().message(), true);
      self->go_on(i + 1);
      return;
    }
    const auto matching = std::make_shared<Matching>();
    matching->rounds = rounds;
    matching->object = *(*form)->object;
    hide_cluster(matching->object);
    matching->request = self->document(asked, **form, false);
    matching->run = std::make_unique<ConditionRun>(
        policy.environment, policy.conditions,
        admission_input(self->input(asked, **form, &matching->object, &matching->request),
                        &matching->request, nullptr, true));
    self->evaluate_conditions(i, matching);
  });
}

void PolicyMutations::evaluate_conditions(std::size_t i,
                                          const std::shared_ptr<Matching>& matching) {
  if (!matching->run->go_on(EvaluationTurn())) {
    around_.later(
        [self = shared_from_this(), i, matching] { self->evaluate_conditions(i, matching); });
  } else if (const int rounds = matching->rounds; !access_->evaluates_again(
                 rounds, [self = shared_from_this(), i, rounds] { self->match(i, rounds + 1); })) {
    matched(i, matching->run->take());
  }
}

void PolicyMutations::matched(std::size_t i, const MatchOutcome& outcome) {
  if (outcome.matches) {
    mutate(i, 0, 0);
    return;
  }
  if (!outcome.fault.empty()) {
    failed(*invocations_[i].policy, invocations_[i].binding.get(), outcome.fault);
  }
  go_on(i + 1);
}

void PolicyMutations::mutate(std::size_t i, std::size_t step, int rounds) {
  const Invocation& invocation = invocations_[i];
  const MutatingPolicy& policy = *invocation.policy;
  if (step == policy.mutations.size()) {
    if (invocation_changed_) {
      object_changed();
    }
    if (policy.reinvoked) {
      asked_before_.insert(invocation.key);
    }
    go_on(i + 1);
    return;
  }
  forms_->get(subject_.kind_of(invocation.resource), [self = shared_from_this(), i, step, rounds](
                                                         Expected<const WriteForms::Form*> form) {
    const Invocation& asked = self->invocations_[i];
    const MutatingPolicy& rules = *asked.policy;
    if (!form) {
      self->failed(rules, asked.binding.get(), form.error().message(), true);
      self->go_on(i + 1);
      return;
    }
    Json shown = *(*form)->object;
    hide_cluster(shown);
    const PolicyExpression& expression = rules.mutations[step].expression;
    Expected<Json> made = fail(Errc::kInvalid, "compilation error: " + expression.fault);
    if (expression.program != nullptr) {
      const Json request = self->document(asked, **form, true);
      const PolicyInput values = self->input(asked, **form, &shown, &request);
      cel::AdmissionEvaluation evaluation(
          rules.environment, admission_input(values, &request, values.namespace_object, true));
      std::uint64_t cost = 0;
      made = evaluation.make(*expression.program, cost);
      if (self->access_->evaluates_again(
              rounds, [self, i, step, rounds] { self->mutate(i, step, rounds + 1); })) {
        return;
      }
      if (cost > cel::kObjectLimit) {
        made = fail(Errc::kInvalid, kBudgetIsSpent);
      } else if (!made) {
        made.error().edit().message = "expression '" + expression.source +
                                      "' resulted in error: " + std::string(made.error().message());
      }
    }
    if (!made) {
      self->failed(rules, asked.binding.get(), made.error().message());
      self->next_step(i, step);
      return;
    }
    self->apply(i, step, (*form)->kind, shown, std::move(*made));
  });
}

/// @param shown  the object as the expression saw it
void PolicyMutations::apply(std::size_t i, std::size_t step, const apiserver::ServedKindPtr& kind,
                            const Json& shown, Json made) {
  const Invocation& invocation = invocations_[i];
  const MutatingPolicy& policy = *invocation.policy;
  Expected<Json> object = shown;
  if (policy.mutations[step].is_patch) {
    object = patched(shown, made);
  } else {
    made["apiVersion"] = shown.text({"apiVersion"});
    made["kind"] = shown.text({"kind"});
    object =
        krm::merge_applied(kind == nullptr ? nullptr : kind->version->schema.get(), shown, made);
    if (!object) {
      object.error().edit().message.insert(0, "error applying patch: ");
    }
  }
  if (!object) {
    failed(policy, invocation.binding.get(), object.error().message());
    next_step(i, step);
    return;
  }
  if (!write_->cluster.empty()) {
    object->make({"metadata", "annotations", krm::kClusterAnnotation}) = write_->cluster;
  }
  const auto taken = [self = shared_from_this(), i, step](Expected<Json> whole) {
    const Invocation& asked = self->invocations_[i];
    if (!whole) {
      self->failed(*asked.policy, asked.binding.get(), whole.error().message());
    } else if (!(*whole == *self->forms_->object())) {
      self->forms_->set_object(std::make_shared<const Json>(std::move(*whole)));
      self->changed_ = self->invocation_changed_ = true;
    }
    self->next_step(i, step);
  };
  if (kind == nullptr) {
    taken(std::move(object));
  } else {
    write_->take_back(std::move(*object), kind, taken);
  }
}

void PolicyMutations::finish() {
  if (faults_.empty()) {
    done_(changed_);
    return;
  }
  const apiserver::ResourceDef& def = *write_->kind->def;
  const std::string name = request_.name.empty() ? "Unknown" : request_.name;
  Error error = krm::forbidden(def.group, def.plural, name, "");
  error.edit().message = faults_.front().text;
  for (const Fault& fault : faults_) {
    error.edit().causes.push_back({"", fault.text, ""});
  }
  Json status = krm::to_status(error);
  if (!faults_.front().of_configuration) {
    status["reason"] = "Invalid";  // with 403, as the reference has it
  }
  write_->notes.status = std::move(status);
  done_(fail(std::move(error)));
}

}  // namespace kintsugi::kinds
