#include "apiserver/internal/policy_guard.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "apiserver/internal/access_cache.h"
#include "apiserver/internal/policy_request.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/kcp_groups.h"
#include "apiserver/policies/evaluate.h"
#include "apiserver/policies/params.h"
#include "apiserver/policies/policy_names.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

constexpr std::chrono::milliseconds kTurn(2);  ///< evaluated without a break
constexpr int kMaxRounds = 64;  ///< evaluations of one request that waited for the authorizer
constexpr const char* kFailureNote = "validation.policy.admission.k8s.io/validation_failure";

/// The resource that a kind's objects are stored under in another group (events), if any.
ResourcePtr twin_of(const Registry& registry, std::string_view cluster, const ResourceDef& def) {
  if (def.stored_under_group) {
    return registry.find(cluster, *def.stored_under_group, def.plural);
  }
  return def.group.empty() && def.plural == "events"
             ? registry.find(cluster, "events.k8s.io", "events")
             : nullptr;
}

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
  PolicyCheck(WriteOpPtr op, std::string_view operation, std::function<void()> next)
      : op_(std::move(op)),
        next_(std::move(next)),
        request_(policy_request(*op_, operation)),
        hooks_(op_->server.policies().hooks(op_->cluster)),
        access_(std::make_shared<AccessCache>(op_->server.params().authorizer, op_->user,
                                              op_->cluster)) {}

  /// Objects that need no conversion, of a kind of their own.
  void start_with(GroupVersionName kind, std::optional<Json> object, std::optional<Json> old) {
    request_.kind = std::move(kind);
    convertible_ = false;
    Form& form = forms_[request_.resource.group + "/" + request_.resource.version];
    form.object = std::move(object);
    form.old = std::move(old);
    match(form.object ? &*form.object : nullptr, form.old ? &*form.old : nullptr);
  }

  void start(const Json* object, const Json* old) {
    if (op_->subresource == "scale") {
      start_with({"autoscaling", "v1", "Scale"}, scale(object), scale(old));
      return;
    }
    object_ = object;
    old_ = old;
    match(object, old);
  }

 private:
  /// The objects in one version.
  struct Form {
    ServedKindPtr kind;
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

  [[nodiscard]] std::optional<Json> scale(const Json* object) const {
    if (object == nullptr) {
      return std::nullopt;
    }
    Expected<Json> made = scale_of(*op_->kind, *object);
    return made ? std::optional(std::move(*made)) : std::nullopt;
  }

  [[nodiscard]] const ObjectReader& reader() const { return op_->server.reader(); }

  Expected<const Json*> namespace_object() {
    if (!namespace_known_) {
      namespace_known_ = true;
      namespace_ = reader().get(op_->cluster, "", "namespaces", "", request_.ns);
    }
    if (!namespace_) {
      return fail(krm::not_found("", "namespaces", request_.ns));
    }
    return &*namespace_;
  }

  [[nodiscard]] AdmissionSubject subject(const Json* object, const Json* old) {
    AdmissionSubject out;
    out.operation = request_.operation;
    out.resource = request_.resource;
    out.subresource = request_.subresource;
    out.ns = request_.ns;
    out.name = request_.name;
    out.object = object;
    out.old_object = old;
    out.namespace_labels = [this]() -> Expected<Json> {
      const Expected<const Json*> found = namespace_object();
      if (!found) {
        return fail(found.error().clone());
      }
      const Json* labels = (*found)->at({"metadata", "labels"});
      return labels == nullptr ? Json() : *labels;
    };
    for (const ResourcePtr& def :
         {op_->kind->def, twin_of(op_->server.registry(), op_->cluster, *op_->kind->def)}) {
      for (const ResourceVersion& version :
           def == nullptr ? std::vector<ResourceVersion>() : def->versions) {
        GroupVersionName other{def->group, version.name, def->plural};
        if (version.served && other != out.resource) {
          out.equivalents.push_back(std::move(other));
        }
      }
    }
    return out;
  }

  void match(const Json* object, const Json* old) {
    const AdmissionSubject seen = subject(object, old);
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
    const ParamSource source(op_->server.registry(), reader(), op_->cluster, policy.param_kind);
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
    if (!convertible_) {
      evaluate();
      return;
    }
    for (const Invocation& invocation : invocations_) {
      Form& form = forms_[form_key(invocation.resource)];
      if (form.kind != nullptr) {
        continue;
      }
      const ResourcePtr twin = twin_of(op_->server.registry(), op_->cluster, *op_->kind->def);
      const ResourcePtr& def =
          invocation.resource.group == op_->kind->def->group ? op_->kind->def : twin;
      form.kind = make_served_kind(def, def->version(invocation.resource.version));
      convert(form, object_, &Form::object);
      convert(form, old_, &Form::old);
    }
    if (converting_ == 0) {
      evaluate();
    }
  }

  void convert(Form& form, const Json* object, std::optional<Json> Form::*member) {
    if (object == nullptr) {
      return;
    }
    Json copy = *object;
    const ServedKind& written = op_->written_as == nullptr ? *op_->kind : *op_->written_as;
    if (!written.is_custom()) {
      form.kind->from_storage(copy);
    } else if (copy.text({"apiVersion"}) != form.kind->api_version) {
      if (written.def->webhook != nullptr) {
        ++converting_;
        op_->server.conversions().convert_one(
            op_->cluster, form.kind, std::move(copy),
            [self = shared_from_this(), &form, member](Expected<Json> converted) {
              self->converted(form, member, std::move(converted));
            });
        return;
      }
      written.to_storage(copy);
      form.kind->from_storage(copy);
    }
    hide_cluster(copy);
    form.*member = std::move(copy);
  }

  void converted(Form& form, std::optional<Json> Form::*member, Expected<Json> object) {
    if (object) {
      hide_cluster(*object);
      form.*member = std::move(*object);
    } else {
      form.fault = "failed to convert object version: " + std::string(object.error().message());
    }
    if (--converting_ == 0) {
      evaluate();
    }
  }

  /// Runs all of them; again when the authorizer had to be waited for.
  void evaluate() {
    denials_ = std::move(configuration_);
    configuration_ = denials_;
    op_->policy_warnings.clear();
    op_->audit_annotations.clear();
    if (!invocations_.empty() && !request_.ns.empty() && request_.resource.name != "namespaces") {
      const Expected<const Json*> found = namespace_object();
      if (!found) {
        finish(found.error().clone());
        return;
      }
      namespace_document_ = namespace_document(**found);
    }
    evaluate_from(0);
  }

  /// Lets other requests in between policies that take their time.
  void evaluate_from(std::size_t first) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = first; i < invocations_.size(); ++i) {
      if (i > first && std::chrono::steady_clock::now() - begin > kTurn) {
        op_->server.loop().post([self = shared_from_this(), i] { self->evaluate_from(i); });
        return;
      }
      run(invocations_[i]);
    }
    if (access_->is_waiting() && ++rounds_ < kMaxRounds) {
      access_->settled([self = shared_from_this()] { self->evaluate(); });
      return;
    }
    decide();
  }

  void run(const Invocation& invocation) {
    const Form& form =
        convertible_ ? forms_[form_key(invocation.resource)] : forms_.begin()->second;
    const PolicyBinding& binding = *invocation.binding;
    if (!form.fault.empty()) {
      if (!invocation.policy->ignores_failure) {
        denials_.push_back({denial_text(*invocation.policy, &binding,
                                        "failed to configure binding: " + form.fault),
                            ""});
      }
      return;
    }
    GroupVersionName kind = request_.kind;
    if (form.kind != nullptr) {
      kind = {form.kind->def->group, form.kind->version->name, form.kind->def->kind};
    }
    const Json document = request_.document(invocation.resource, kind);
    const Json condition_document = request_.document(request_.resource, kind);
    PolicyInput input;
    input.object = form.object ? &*form.object : nullptr;
    input.old_object = form.old ? &*form.old : nullptr;
    input.request = &document;
    input.condition_request = &condition_document;
    input.namespace_object = namespace_document_ ? &*namespace_document_ : nullptr;
    input.authorizer = access_.get();
    input.request_resource.group = request_.resource.group;
    input.request_resource.resource = request_.resource.name;
    input.request_resource.subresource = request_.subresource;
    input.request_resource.ns = request_.ns;
    input.request_resource.name = request_.name;
    for (const std::optional<Json>& params : invocation.params) {
      input.params = params ? &*params : nullptr;
      note(invocation, evaluate_policy(*invocation.policy, input));
    }
  }

  void note(const Invocation& invocation, PolicyOutcome outcome) {
    const CompiledPolicy& policy = *invocation.policy;
    const PolicyBinding& binding = *invocation.binding;
    for (PolicyOutcome::Refusal& refusal : outcome.refusals) {
      for (const std::string& action : binding.actions) {
        if (action == "Deny") {
          denials_.push_back({denial_text(policy, &binding, refusal.message), refusal.reason});
        } else if (action == "Warn") {
          op_->policy_warnings.push_back("Validation failed for ValidatingAdmissionPolicy '" +
                                         policy.name + "' with binding '" + binding.name +
                                         "': " + refusal.message);
        } else {
          annotate(kFailureNote, failure_note(refusal, binding), false);
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
    for (auto& [known, text] : op_->audit_annotations) {
      if (known == key) {
        if (joined && text != value) {
          text += ", " + value;
        }
        return;
      }
    }
    op_->audit_annotations.emplace_back(std::move(key), std::move(value));
  }

  void decide() {
    if (denials_.empty()) {
      next_();
      return;
    }
    const Denial& first = denials_.front();
    const ResourceDef& def = *op_->kind->def;
    const std::string name = request_.name.empty() ? "Unknown" : request_.name;
    ErrorDetail detail = krm::forbidden(def.group, def.plural, name, first.message).detail();
    detail.causes.push_back({"", first.message, ""});
    finish(Error(code_of(first.reason), std::move(detail)));
  }

  void finish(Error error) { op_->finish(fail(std::move(error))); }

  WriteOpPtr op_;
  std::function<void()> next_;
  PolicyRequest request_;
  std::shared_ptr<const std::vector<PolicyIndex::Hook>> hooks_;
  std::shared_ptr<AccessCache> access_;
  const Json* object_ = nullptr;
  const Json* old_ = nullptr;
  bool convertible_ = true;
  std::map<std::string, Form> forms_;
  std::size_t converting_ = 0;
  std::vector<Invocation> invocations_;
  std::vector<Denial> configuration_, denials_;
  std::optional<Json> namespace_, namespace_document_;
  bool namespace_known_ = false;
  int rounds_ = 0;
};

/// No tenant's policy says what the system's own kinds may be (KK-222), to nobody.
bool is_system_kind(const ResourceDef& def) { return is_kcp_group(def.group); }

/// Controllers that delete what a user's deletion reaches: contents of namespaces, dependents. A
/// policy that keeps objects keeps them from those, too.
constexpr std::array<std::string_view, 2> kDeleters = {"namespace-controller", "garbage-collector"};

bool is_exempt(const WriteOp& op) {
  const ResourceDef& def = *op.kind->def;
  const bool deletes = op.verb == "delete" &&
                       std::find(kDeleters.begin(), kDeleters.end(), op.manager) != kDeleters.end();
  return (op.skip_admission && !deletes) ||
         (def.group == kAdmissionGroup &&
          (def.plural == kPolicies || def.plural == kPolicyBindings)) ||
         is_system_kind(def) || !op.server.policies().has(op.cluster);
}

}  // namespace

void guard_write(const WriteOpPtr& op, const Json* object, const Json* old,
                 std::function<void()> next) {
  if (is_exempt(*op)) {
    next();
    return;
  }
  const char* operation = object == nullptr ? "DELETE" : old == nullptr ? "CREATE" : "UPDATE";
  std::make_shared<PolicyCheck>(op, operation, std::move(next))->start(object, old);
}

void guard_subresource(const WriteOpPtr& op, const ResourceDef::ExtraSubresource& extra,
                       const Json& body, std::function<void()> next) {
  if (is_exempt(*op)) {
    next();
    return;
  }
  Json object = body;
  const std::string api_version =
      extra.group.empty() ? extra.version : extra.group + "/" + extra.version;
  object["apiVersion"] = api_version;
  object["kind"] = extra.kind;
  std::make_shared<PolicyCheck>(op, "CREATE", std::move(next))
      ->start_with({extra.group, extra.version, extra.kind}, std::move(object), std::nullopt);
}

}  // namespace kintsugi::apiserver::internal
