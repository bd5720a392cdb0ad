#include <memory>
#include <utility>

#include "base/strings.h"
#include "kinds/common.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

constexpr std::string_view kGroup = "rbac.authorization.k8s.io";

bool has_items(const Json& rule, std::string_view key) {
  const Json* member = rule.find(key);
  return member != nullptr && member->size() != 0;
}

void check_rule(const Json& rule, const std::string& field, bool namespaced,
                std::vector<Cause>& causes) {
  if (!has_items(rule, "verbs")) {
    causes.push_back(
        krm::field_required(field + ".verbs", "verbs must contain at least one value"));
  }
  if (has_items(rule, "nonResourceURLs")) {
    const Json& urls = *rule.find("nonResourceURLs");
    if (namespaced) {
      causes.push_back(krm::field_invalid(field + ".nonResourceURLs", urls,
                                          "namespaced rules cannot apply to non-resource URLs"));
    }
    if (has_items(rule, "apiGroups") || has_items(rule, "resources") ||
        has_items(rule, "resourceNames")) {
      causes.push_back(
          krm::field_invalid(field + ".nonResourceURLs", urls,
                             "rules cannot apply to both regular resources and non-resource URLs"));
    }
    return;
  }
  if (!has_items(rule, "apiGroups")) {
    causes.push_back(krm::field_required(field + ".apiGroups",
                                         "resource rules must supply at least one api group"));
  }
  if (!has_items(rule, "resources")) {
    causes.push_back(krm::field_required(field + ".resources",
                                         "resource rules must supply at least one resource"));
  }
}

void check_role(const Json& object, bool namespaced, std::vector<Cause>& causes) {
  if (const Json* rules = object.find("rules")) {
    std::size_t index = 0;
    for (const Json& rule : rules->items()) {
      check_rule(rule, "rules[" + std::to_string(index++) + "]", namespaced, causes);
    }
  }
  const Json* aggregation = object.find("aggregationRule");
  if (!namespaced && aggregation != nullptr && aggregation->is_object() &&
      !has_items(*aggregation, "clusterRoleSelectors")) {
    causes.push_back(krm::field_required(
        "aggregationRule.clusterRoleSelectors",
        "at least one clusterRoleSelector required if aggregationRule is non-nil"));
  }
  if (!namespaced && aggregation != nullptr && has_items(*aggregation, "clusterRoleSelectors")) {
    std::size_t index = 0;
    for (const Json& selector : aggregation->find("clusterRoleSelectors")->items()) {
      const std::string at =
          "aggregationRule.clusterRoleSelectors[" + std::to_string(index++) + "]";
      const std::size_t before = causes.size();
      validate_label_selector(selector, at, causes);
      if (causes.size() != before) {
        causes.push_back(krm::field_invalid(at, Json(), "invalid label selector."));
      }
    }
  }
}

void check_subject(const Json& subject, const std::string& field, bool namespaced,
                   std::vector<Cause>& causes) {
  const std::string_view kind = subject.text({"kind"});
  const std::string_view name = subject.text({"name"});
  const std::string_view group = subject.text({"apiGroup"});
  if (name.empty()) {
    causes.push_back(krm::field_required(field + ".name"));
  }
  if (kind == "ServiceAccount") {
    if (!name.empty()) {
      for (const std::string& fault : krm::check_dns1123_subdomain(name)) {
        causes.push_back(krm::field_invalid(field + ".name", Json(name), fault));
      }
    }
    if (!namespaced && subject.text({"namespace"}).empty()) {
      causes.push_back(krm::field_required(field + ".namespace"));
    }
    if (!group.empty()) {
      causes.push_back(krm::field_not_supported(field + ".apiGroup", Json(group), {""}));
    }
  } else if (kind == "User" || kind == "Group") {
    if (group != kGroup) {
      causes.push_back(
          krm::field_not_supported(field + ".apiGroup", Json(group), {std::string(kGroup)}));
    }
  } else {
    causes.push_back(
        krm::field_not_supported(field + ".kind", Json(kind), {"ServiceAccount", "User", "Group"}));
  }
}

constexpr GoField kRoleRef[] = {{"APIGroup", "apiGroup"}, {"Kind", "kind"}, {"Name", "name"}};

void check_binding(const Json& object, const Json* old, bool namespaced,
                   std::vector<Cause>& causes) {
  static const Json& none = *new Json();
  const Json* given = object.find("roleRef");
  const Json& reference = given == nullptr ? none : *given;
  const std::string_view group = reference.text({"apiGroup"});
  const std::string_view kind = reference.text({"kind"});
  const std::string_view name = reference.text({"name"});
  if (group != kGroup) {
    causes.push_back(
        krm::field_not_supported("roleRef.apiGroup", Json(group), {std::string(kGroup)}));
  }
  const std::vector<std::string> allowed = namespaced
                                               ? std::vector<std::string>{"Role", "ClusterRole"}
                                               : std::vector<std::string>{"ClusterRole"};
  if (kind != "ClusterRole" && !(namespaced && kind == "Role")) {
    causes.push_back(krm::field_not_supported("roleRef.kind", Json(kind), allowed));
  }
  if (name.empty()) {
    causes.push_back(krm::field_required("roleRef.name"));
  } else {
    for (const std::string& fault : krm::check_path_segment(name)) {
      causes.push_back(krm::field_invalid("roleRef.name", Json(name), fault));
    }
  }
  if (const Json* subjects = object.find("subjects")) {
    std::size_t index = 0;
    for (const Json& subject : subjects->items()) {
      check_subject(subject, "subjects[" + std::to_string(index++) + "]", namespaced, causes);
    }
  }
  if (old != nullptr && !same_member(object, *old, "roleRef")) {
    causes.push_back(
        {"FieldValueInvalid",
         "Invalid value: " + go_struct_text(reference, kRoleRef) + ": cannot change roleRef",
         "roleRef"});
  }
}

void default_binding(Json& object) {
  if (Json* reference = object.find("roleRef");
      reference != nullptr && reference->is_object() && reference->text({"apiGroup"}).empty()) {
    (*reference)["apiGroup"] = Json(kGroup);
  }
  if (Json* subjects = object.find("subjects"); subjects != nullptr && subjects->is_array()) {
    for (Json& subject : subjects->edit_items()) {
      const std::string_view kind = subject.text({"kind"});
      if ((kind == "User" || kind == "Group") && subject.text({"apiGroup"}).empty()) {
        subject["apiGroup"] = Json(kGroup);
      }
    }
  }
}

std::string names_of(const Json& object, std::string_view kind) {
  std::vector<std::string> out;
  if (const Json* subjects = object.find("subjects")) {
    for (const Json& subject : subjects->items()) {
      if (subject.text({"kind"}) != kind) {
        continue;
      }
      std::string name(subject.text({"name"}));
      if (kind == "ServiceAccount" && !subject.text({"namespace"}).empty()) {
        name = std::string(subject.text({"namespace"})) + "/" + name;
      }
      out.push_back(std::move(name));
    }
  }
  return join(out, ", ");
}

template <class Cell>
apiserver::Column wide_column(std::string_view name, std::string_view description, int priority,
                              Cell cell) {
  apiserver::Column out;
  out.name = name;
  out.description = description;
  out.priority = priority;
  out.cell = cell;
  return out;
}

apiserver::ResourcePtr role_kind(std::string_view kind, std::string_view plural, bool namespaced) {
  apiserver::ResourceDef def = make_kind(kGroup, "v1", kind, plural);
  def.namespaced = namespaced;
  def.name_rule = apiserver::NameRule::kPathSegment;
  def.create_on_update = true;
  def.versions[0].columns = {created_at_column()};
  def.hooks.validate = [namespaced](const apiserver::WriteContext&, const Json& object, const Json*,
                                    std::vector<Cause>& causes) {
    check_role(object, namespaced, causes);
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr binding_kind(std::string_view kind, std::string_view plural,
                                    bool namespaced) {
  apiserver::ResourceDef def = make_kind(kGroup, "v1", kind, plural);
  def.namespaced = namespaced;
  def.name_rule = apiserver::NameRule::kPathSegment;
  def.create_on_update = true;
  const std::string binding = namespaced ? "roleBinding" : "clusterRoleBinding";
  std::vector<apiserver::Column>& columns = def.versions[0].columns;
  columns.push_back(wide_column(
      "Role",
      namespaced ? "RoleRef can reference a Role in the current namespace or a ClusterRole in the "
                   "global namespace. If the RoleRef cannot be resolved, the Authorizer must "
                   "return an error."
                 : "RoleRef can only reference a ClusterRole in the global namespace. If the "
                   "RoleRef cannot be resolved, the Authorizer must return an error.",
      0, [](const Json& object) {
        return Json(std::string(object.text({"roleRef", "kind"})) + "/" +
                    std::string(object.text({"roleRef", "name"})));
      }));
  columns.push_back(age_column());
  columns.push_back(wide_column("Users", "Users in the " + binding, 1,
                                [](const Json& object) { return Json(names_of(object, "User")); }));
  columns.push_back(wide_column("Groups", "Groups in the " + binding, 1, [](const Json& object) {
    return Json(names_of(object, "Group"));
  }));
  columns.push_back(
      wide_column("ServiceAccounts", "ServiceAccounts in the " + binding, 1,
                  [](const Json& object) { return Json(names_of(object, "ServiceAccount")); }));
  set_defaults_and_prepare(def.hooks, default_binding, nullptr);
  def.hooks.validate = [namespaced](const apiserver::WriteContext&, const Json& object,
                                    const Json* old, std::vector<Cause>& causes) {
    check_binding(object, old, namespaced, causes);
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace

std::vector<apiserver::ResourcePtr> rbac_kinds() {
  return {binding_kind("ClusterRoleBinding", "clusterrolebindings", false),
          role_kind("ClusterRole", "clusterroles", false),
          binding_kind("RoleBinding", "rolebindings", true), role_kind("Role", "roles", true)};
}

}  // namespace kintsugi::kinds
