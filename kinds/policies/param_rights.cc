#include "kinds/policies/param_rights.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinds/policies/internal/params.h"
#include "kinds/policies/policy_names.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

/// As Go prints the struct behind a pointer.
std::string user_text(const auth::UserInfo& user) {
  const auto list = [](const std::vector<std::string>& values) {
    std::string out = "[";
    for (const std::string& value : values) {
      out += (out.size() == 1 ? "" : " ") + value;
    }
    return out + "]";
  };
  std::string extra = "map[";
  for (const auto& [key, values] : user.extra) {
    extra += (extra.back() == '[' ? "" : " ") + key + ":" + list(values);
  }
  return "&{" + user.name + " " + user.uid + " " + list(user.groups) + " " + extra + "]}";
}

const Json* member(const Json& object, std::string_view name) {
  const Json* found = object.at({"spec", name});
  return found == nullptr || found->is_null() ? nullptr : found;
}

/// What somebody must be allowed, and what is said when that is not so.
struct Need {
  auth::Attributes attributes;
  std::string field, text;
};

class ParamRights {
 public:
  /// @param policies  plural of the kind that bindings refer to
  ParamRights(const apiserver::WriteContext& context, const apiserver::Registry& registry,
              std::string_view policies)
      : context_(context), registry_(registry), policies_(policies) {}

  [[nodiscard]] std::optional<Need> of_policy(const Json& policy, const Json* old) const {
    const Json* kind = member(policy, "paramKind");
    const Json* before = old == nullptr ? nullptr : member(*old, "paramKind");
    if (kind == nullptr || (before != nullptr && *before == *kind)) {
      return std::nullopt;
    }
    Need need = ask("get", *kind);
    need.attributes.name = "*";
    need.attributes.ns = "*";
    need.field = "spec.paramKind";
    need.text = "user " + user_text(context_.user) +
                " must have \"get\" permission on all objects of the referenced paramKind (kind=" +
                std::string(kind->text({"kind"})) +
                ", apiVersion=" + std::string(kind->text({"apiVersion"})) + ")";
    return need;
  }

  [[nodiscard]] std::optional<Need> of_binding(const Json& binding) const {
    const Json* ref = member(binding, "paramRef");
    if (ref == nullptr) {
      return std::nullopt;
    }
    const std::string_view name = ref->text({"name"});
    const std::string_view verb = name.empty() ? "list" : "get";
    const std::string_view policy_name = binding.text({"spec", "policyName"});
    const std::optional<Json> policy =
        context_.reader.get(context_.cluster, kAdmissionGroup, policies_, "", policy_name);
    const Json* kind = policy ? member(*policy, "paramKind") : nullptr;
    Need need = kind == nullptr ? ask(verb, Json()) : ask(verb, *kind);
    need.attributes.name = name;
    need.attributes.ns = ref->text({"namespace"});
    need.field = "spec.paramRef";
    const std::string who = "user " + user_text(context_.user) + " does not have \"" +
                            std::string(verb) + "\" permission ";
    need.text = policy ? who + "on the object referenced by paramRef"
                       : "unable to get policy " + std::string(policy_name) +
                             " to determine minimum required permissions and " + who +
                             "for all groups, versions and resources";
    return need;
  }

 private:
  /// @param kind  null: any.
  [[nodiscard]] Need ask(std::string_view verb, const Json& kind) const {
    Need need;
    auth::Attributes& attributes = need.attributes;
    attributes.user = context_.user;
    attributes.cluster = context_.cluster;
    attributes.verb = verb;
    attributes.group = attributes.version = attributes.resource = "*";
    if (!kind.is_null()) {
      const GroupVersionName name = parse_kind(kind.text({"apiVersion"}), kind.text({"kind"}));
      attributes.group = name.group;
      attributes.version = name.version;
      if (const apiserver::ResourcePtr def = find_kind(registry_, context_.cluster, name)) {
        attributes.resource = def->plural;
      }
    }
    return need;
  }

  const apiserver::WriteContext& context_;
  const apiserver::Registry& registry_;
  std::string_view policies_;
};

}  // namespace

apiserver::ResourcePtr with_param_check(apiserver::ResourcePtr kind, auth::Authorizer& authorizer,
                                        std::function<const apiserver::Registry&()> registry) {
  const bool policy = kind->plural == kPolicies || kind->plural == kMutatingPolicies;
  const bool binding = kind->plural == kPolicyBindings || kind->plural == kMutatingPolicyBindings;
  if (kind->group != kAdmissionGroup || (!policy && !binding)) {
    return kind;
  }
  const std::string_view policies =
      kind->plural == kMutatingPolicyBindings ? kMutatingPolicies : kPolicies;
  auto copy = std::make_shared<apiserver::ResourceDef>(*kind);
  copy->hooks.admit = [&authorizer, registry = std::move(registry), policy, policies,
                       validate = kind->hooks.validate, name = kind->kind](
                          const apiserver::WriteContext& context, const Json* object,
                          const Json* old, apiserver::Hooks::AdmitDone done) {
    if (object == nullptr || !context.subresource.empty() ||
        context.user.in_group(auth::kGroupMasters)) {
      done({});
      return;
    }
    std::vector<Cause> causes;
    validate(context, *object, old, causes);
    const ParamRights rights(context, registry(), policies);
    std::optional<Need> need;
    if (causes.empty()) {  // validation has the better words
      need = policy ? rights.of_policy(*object, old) : rights.of_binding(*object);
    }
    if (!need) {
      done({});
      return;
    }
    const auth::Attributes attributes = need->attributes;
    authorizer.authorize(attributes, [done = std::move(done), need = std::move(*need), name,
                                      of = std::string(object->text({"metadata", "name"}))](
                                         Expected<auth::Decision> decision) {
      if (decision && decision->allowed) {
        done({});
        return;
      }
      const std::string text = decision ? need.text : std::string(decision.error().message());
      done(fail(krm::invalid(kAdmissionGroup, name, of, {krm::field_forbidden(need.field, text)})));
    });
  };
  return copy;
}

}  // namespace kintsugi::kinds
