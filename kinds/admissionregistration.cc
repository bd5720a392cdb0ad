#include <memory>
#include <string>
#include <utility>

#include "kinds/common.h"
#include "kinds/policies/policy_names.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

void default_resources(Json* resources) {
  if (resources == nullptr || !resources->is_object()) {
    return;
  }
  const auto fill = [resources](const char* member, Json value) {
    if (!is_set(*resources, member)) {
      (*resources)[member] = std::move(value);
    }
  };
  fill("matchPolicy", Json("Equivalent"));
  fill("namespaceSelector", Json::object());
  fill("objectSelector", Json::object());
  for (const char* member : {"resourceRules", "excludeResourceRules"}) {
    Json* rules = resources->find(member);
    if (rules == nullptr || !rules->is_array()) {
      continue;
    }
    for (Json& rule : rules->edit_items()) {
      if (!is_set(rule, "scope")) {
        rule["scope"] = "*";
      }
    }
  }
}

void default_policy(Json& policy) {
  Json& spec = policy["spec"];
  if (!is_set(spec, "failurePolicy")) {
    spec["failurePolicy"] = "Fail";
  }
  default_resources(spec.find("matchConstraints"));
}

void default_webhooks(Json& configuration, bool mutating) {
  Json* webhooks = configuration.find("webhooks");
  if (webhooks == nullptr || !webhooks->is_array()) {
    return;
  }
  for (Json& webhook : webhooks->edit_items()) {
    const auto fill = [&webhook](const char* member, Json value) {
      if (!is_set(webhook, member)) {
        webhook[member] = std::move(value);
      }
    };
    fill("failurePolicy", Json("Fail"));
    fill("matchPolicy", Json("Equivalent"));
    fill("namespaceSelector", Json::object());
    fill("objectSelector", Json::object());
    fill("timeoutSeconds", Json(10));
    if (mutating) {
      fill("reinvocationPolicy", Json("Never"));
    }
    Json* service = webhook.at({"clientConfig", "service"});
    if (service != nullptr && service->is_object() && !is_set(*service, "port")) {
      (*service)["port"] = 443;
    }
    Json* rules = webhook.find("rules");
    if (rules == nullptr || !rules->is_array()) {
      continue;
    }
    for (Json& rule : rules->edit_items()) {
      if (!is_set(rule, "scope")) {
        rule["scope"] = "*";
      }
    }
  }
}

void default_binding(Json& binding) { default_resources(binding.at({"spec", "matchResources"})); }

apiserver::Column column(std::string_view name, std::string_view type, std::string_view description,
                         Json (*cell)(const Json& object)) {
  apiserver::Column out;
  out.name = name;
  out.type = type;
  out.description = description;
  out.cell = cell;
  return out;
}

Json validations_cell(const Json& object) {
  const Json* list = object.at({"spec", "validations"});
  return Json(static_cast<std::int64_t>(list == nullptr ? 0 : list->size()));
}

Json mutations_cell(const Json& object) {
  const Json* list = object.at({"spec", "mutations"});
  return Json(static_cast<std::int64_t>(list == nullptr ? 0 : list->size()));
}

Json param_kind_cell(const Json& object) {
  const Json* kind = object.at({"spec", "paramKind"});
  return kind == nullptr || kind->is_null() ? Json("<unset>")
                                            : Json(std::string(kind->text({"apiVersion"})) + "/" +
                                                   std::string(kind->text({"kind"})));
}

Json webhooks_cell(const Json& object) {
  const Json* list = object.find("webhooks");
  return Json(static_cast<std::int64_t>(list == nullptr ? 0 : list->size()));
}

Json policy_name_cell(const Json& object) { return Json(object.text({"spec", "policyName"})); }

/// As Go prints a *LabelSelector.
std::string selector_text(const Json& selector) {
  std::string out = "&LabelSelector{MatchLabels:map[string]string{";
  if (const Json* labels = selector.find("matchLabels")) {
    for (const krm::JsonMember& label : labels->members()) {
      out += label.key + ": " + std::string(label.value.as_string()) + ",";
    }
  }
  out += "},MatchExpressions:[]LabelSelectorRequirement{";
  if (const Json* requirements = selector.find("matchExpressions")) {
    for (const Json& each : requirements->items()) {
      out += "LabelSelectorRequirement{Key:" + std::string(each.text({"key"})) +
             ",Operator:" + std::string(each.text({"operator"})) + ",Values:[";
      if (const Json* values = each.find("values")) {
        for (const Json& value : values->items()) {
          out += (out.back() == '[' ? "" : " ") + std::string(value.as_string());
        }
      }
      out += "],},";
    }
  }
  return out + "},}";
}

Json param_ref_cell(const Json& object) {
  const Json* ref = object.at({"spec", "paramRef"});
  if (ref == nullptr || ref->is_null()) {
    return Json("<unset>");
  }
  const std::string name(ref->text({"name"}));
  if (!name.empty()) {
    const std::string ns(ref->text({"namespace"}));
    return Json((ns.empty() ? "*" : ns) + "/" + name);
  }
  const Json* selector = ref->find("selector");
  return selector == nullptr || selector->is_null() ? Json("<unset>")
                                                    : Json(selector_text(*selector));
}

apiserver::ResourceDef make_policy_kind(std::string_view kind, std::string_view plural) {
  apiserver::ResourceDef def = make_kind(kAdmissionGroup, "v1", kind, plural);
  def.namespaced = false;
  def.unconditional_update = false;
  def.generation = true;
  def.categories = {"api-extensions"};
  return def;
}

void prepare_policy(const apiserver::WriteContext& context, Json& policy, const Json* old) {
  if (context.subresource == "status" && old != nullptr) {
    copy_member(policy, *old, "spec");
  }
  if (policy.find("status") == nullptr) {
    policy["status"] = Json::object();
  }
}

apiserver::Column param_kind_column() {
  return column("ParamKind", "string",
                "ParamKind specifies the kind of resources used to parameterize this policy",
                param_kind_cell);
}

std::vector<apiserver::Column> binding_columns() {
  return {column("PolicyName", "string",
                 "PolicyName indicates the policy definition which the policy binding binded to",
                 policy_name_cell),
          column("ParamRef", "string",
                 "ParamRef indicates the param resource which sets the configuration param",
                 param_ref_cell),
          age_column()};
}

apiserver::ResourcePtr mutating_policy_kind() {
  apiserver::ResourceDef def = make_policy_kind("MutatingAdmissionPolicy", kMutatingPolicies);
  def.versions[0].columns = {
      column("Mutations", "integer",
             "Mutation indicates the number of mutations rules defined in this configuration",
             mutations_cell),
      param_kind_column(), age_column()};
  set_defaults_and_prepare(def.hooks, default_policy, {});
  def.hooks.validate = [](const apiserver::WriteContext&, const Json& object, const Json* old,
                          std::vector<Cause>& causes) {
    validate_mutating_policy(object, old, causes);
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr mutating_binding_kind() {
  apiserver::ResourceDef def =
      make_policy_kind("MutatingAdmissionPolicyBinding", kMutatingPolicyBindings);
  def.versions[0].columns = binding_columns();
  set_defaults_and_prepare(def.hooks, default_binding, {});
  def.hooks.validate = [](const apiserver::WriteContext&, const Json& object, const Json*,
                          std::vector<Cause>& causes) {
    validate_mutating_binding(object, causes);
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr webhook_kind(std::string_view kind, std::string_view plural, bool mutating) {
  apiserver::ResourceDef def = make_policy_kind(kind, plural);
  def.versions[0].columns = {
      column("Webhooks", "integer",
             "Webhooks indicates the number of webhooks registered in this configuration",
             webhooks_cell),
      age_column()};
  set_defaults_and_prepare(def.hooks,
                           [mutating](Json& object) { default_webhooks(object, mutating); }, {});
  def.hooks.validate = [mutating](const apiserver::WriteContext& context, const Json& object,
                                  const Json* old, std::vector<Cause>& causes) {
    validate_webhooks(object, old, mutating, causes);
    warn_of_services(object, context.warnings);
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace

std::vector<apiserver::ResourcePtr> admissionregistration_kinds() {
  apiserver::ResourceDef policy = make_policy_kind("ValidatingAdmissionPolicy", kPolicies);
  policy.versions[0].status = true;
  policy.versions[0].columns = {
      column("Validations", "integer",
             "Validations indicates the number of validation rules defined in this configuration",
             validations_cell),
      param_kind_column(), age_column()};
  set_defaults_and_prepare(policy.hooks, default_policy, prepare_policy);
  policy.hooks.validate = [](const apiserver::WriteContext& context, const Json& object,
                             const Json* old, std::vector<Cause>& causes) {
    if (context.subresource == "status") {
      validate_policy_status(object, causes);
    } else {
      validate_policy(object, old, causes);
    }
  };
  apiserver::ResourceDef binding =
      make_policy_kind("ValidatingAdmissionPolicyBinding", kPolicyBindings);
  binding.versions[0].columns = binding_columns();
  set_defaults_and_prepare(binding.hooks, default_binding, {});
  binding.hooks.validate = [](const apiserver::WriteContext&, const Json& object, const Json*,
                              std::vector<Cause>& causes) {
    validate_policy_binding(object, causes);
  };
  return {mutating_policy_kind(),
          mutating_binding_kind(),
          webhook_kind("MutatingWebhookConfiguration", kMutatingWebhooks, true),
          std::make_shared<const apiserver::ResourceDef>(std::move(policy)),
          std::make_shared<const apiserver::ResourceDef>(std::move(binding)),
          webhook_kind("ValidatingWebhookConfiguration", kValidatingWebhooks, false)};
}

}  // namespace kintsugi::kinds
