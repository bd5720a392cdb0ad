#include "kinds/rbac/rbac_escalation.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/judged_hook.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";

bool is_master(const apiserver::WriteContext& context) {
  return context.user.in_group(auth::kGroupMasters);
}

bool may(const RbacAuthorizer& rbac, const apiserver::WriteContext& context, std::string_view verb,
         std::string_view resource, std::string_view ns, std::string_view name) {
  auth::Attributes attributes;
  attributes.user = context.user;
  attributes.cluster = context.cluster;
  attributes.verb = verb;
  attributes.group = kRbacGroup;
  attributes.version = "v1";
  attributes.resource = resource;
  attributes.ns = ns;
  attributes.name = name;
  return rbac.decide(attributes).allowed;
}

/// "not found" as kcp words it: with the resource of the request, whatever was looked for.
std::string absent_text(std::string_view resource, std::string_view name) {
  return std::string(resource) + "." + std::string(kRbacGroup) + " " + krm::go_quote(name) +
         " not found";
}

Expected<void> confirm_held(const RbacAuthorizer& rbac, const apiserver::WriteContext& context,
                            std::string_view resource, std::string_view ns, std::string_view name,
                            const PolicyRules& wanted) {
  std::vector<std::string> absent;
  const PolicyRules held = rbac.stored_rules_for(context.user, context.cluster, ns, absent);
  const PolicyRules missing = missing_rules(held, wanted);
  if (missing.empty()) {
    return {};
  }
  std::set<std::string> lines;
  for (const PolicyRule& rule : missing) {
    lines.insert(describe_rule(rule));
  }
  std::string text = "user " + krm::go_quote(context.user.name) +
                     " (groups=" + describe_list(context.user.groups) +
                     ") is attempting to grant RBAC permissions not currently held:";
  for (const std::string& line : lines) {
    text += "\n" + line;
  }
  if (!absent.empty()) {
    std::string errors;
    for (const std::string& role : absent) {
      errors += (errors.empty() ? "" : ", ") + absent_text(resource, role);
    }
    text += "; resolution errors: [" + (absent.size() > 1 ? "[" + errors + "]" : errors) + "]";
  }
  return fail(krm::forbidden(kRbacGroup, resource, name, text));
}

bool same_or_both_empty(const krm::Json& object, const krm::Json& old, std::string_view key) {
  static const krm::Json kNull;
  const auto value = [&](const krm::Json& from) -> const krm::Json& {
    const krm::Json* found = from.find(key);
    return found == nullptr || found->size() == 0 ? kNull : *found;
  };
  return value(object) == value(old);
}

}  // namespace

Expected<void> check_role_escalation(const RbacAuthorizer& rbac,
                                     const apiserver::WriteContext& context,
                                     std::string_view resource, const krm::Json& object,
                                     const krm::Json* old) {
  const std::string_view ns = object.text({"metadata", "namespace"});
  const std::string_view name = object.text({"metadata", "name"});
  if (is_master(context)) {
    return {};
  }
  if (old != nullptr && same_or_both_empty(object, *old, "rules") &&
      same_or_both_empty(object, *old, "aggregationRule")) {
    return {};
  }
  // The check has the attributes of the request: a create has no name yet.
  if (may(rbac, context, "escalate", resource, ns, old == nullptr ? std::string_view() : name)) {
    return {};
  }
  PolicyRules wanted = parse_rules(object);
  if (object.find("aggregationRule") != nullptr && !object.find("aggregationRule")->is_null()) {
    // Whoever labels roles later decides what this one grants.
    wanted = bootstrap_role("cluster-admin")->rules;
  }
  return confirm_held(rbac, context, resource, ns,
                      context.generated_name ? std::string_view() : name, wanted);
}

Expected<void> check_binding_escalation(const RbacAuthorizer& rbac,
                                        const apiserver::WriteContext& context,
                                        std::string_view resource, const krm::Json& object,
                                        const krm::Json* old) {
  const std::string_view ns = object.text({"metadata", "namespace"});
  const std::string_view name = object.text({"metadata", "name"});
  if (is_master(context)) {
    return {};
  }
  if (old != nullptr && same_or_both_empty(object, *old, "roleRef") &&
      same_or_both_empty(object, *old, "subjects")) {
    return {};
  }
  const std::string_view kind = object.text({"roleRef", "kind"});
  const std::string_view role = object.text({"roleRef", "name"});
  if (kind != "ClusterRole" && kind != "Role") {
    return fail(krm::unclassified("unsupported role reference kind: " + krm::go_quote(kind)));
  }
  const bool cluster_role = kind == "ClusterRole";
  if (role.empty() || (!cluster_role && ns.empty())) {
    return {};  // validation has the better words
  }
  if (may(rbac, context, "bind", cluster_role ? "clusterroles" : "roles", ns, role)) {
    return {};
  }
  const std::shared_ptr<const PolicyRules> rules =
      rbac.stored_role(context.cluster, cluster_role, ns, role);
  if (rules == nullptr) {
    return fail(krm::not_found(kRbacGroup, resource, role));
  }
  return confirm_held(rbac, context, resource, ns,
                      context.generated_name ? std::string_view() : name, *rules);
}

apiserver::ResourcePtr with_escalation_check(apiserver::ResourcePtr kind,
                                             const RbacAuthorizer& rbac) {
  const bool role = kind->plural == "roles" || kind->plural == "clusterroles";
  const bool binding = kind->plural == "rolebindings" || kind->plural == "clusterrolebindings";
  if (kind->group != kRbacGroup || (!role && !binding)) {
    return kind;
  }
  auto copy = std::make_shared<apiserver::ResourceDef>(*kind);
  const auto judge = [&rbac, role, resource = kind->plural](const apiserver::WriteContext& context,
                                                            const krm::Json* object,
                                                            const krm::Json* old) {
    if (object == nullptr) {
      return Expected<void>();
    }
    return role ? check_role_escalation(rbac, context, resource, *object, old)
                : check_binding_escalation(rbac, context, resource, *object, old);
  };
  copy->hooks.admit = apiserver::judged_hook(judge, kind->hooks.admit);
  return copy;
}

}  // namespace kintsugi::kinds
