#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kinds/common.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;
using Texts = std::vector<std::string>;

const Json::Array& items(const Json& object, std::string_view member) {
  static const Json::Array& none = *new Json::Array;
  const Json* list = object.find(member);
  return list == nullptr ? none : list->items();
}

std::string at(const std::string& field, std::size_t index) {
  return field + '[' + std::to_string(index) + ']';
}

void require(bool given, const std::string& field, std::vector<Cause>& causes) {
  if (!given) {
    causes.push_back(krm::field_required(field));
  }
}

void check_wildcard(const Json& rule, const char* member, const char* what,
                    const std::string& field, std::vector<Cause>& causes) {
  const Json::Array& list = items(rule, member);
  if (list.size() > 1 && std::find(list.begin(), list.end(), Json("*")) != list.end()) {
    causes.push_back(
        krm::field_invalid(field, *rule.find(member),
                           std::string("if '*' is present, must not specify other ") + what));
  }
}

void check_resources(const Json& rule, const std::string& field, std::vector<Cause>& causes) {
  const Json::Array& list = items(rule, "resources");
  require(!list.empty(), field, causes);
  std::set<std::string> whole;     // x of x/*
  std::set<std::string> anywhere;  // y of */y
  bool double_wildcard = false;
  bool single_wildcard = false;
  bool plain = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string text(list[i].as_string());
    if (text.empty()) {
      causes.push_back(krm::field_required(at(field, i)));
      continue;
    }
    double_wildcard = double_wildcard || text == "*/*";
    single_wildcard = single_wildcard || text == "*";
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos) {
      plain = text != "*";
      continue;
    }
    const std::string resource = text.substr(0, slash);
    const std::string sub = text.substr(slash + 1);
    if (whole.contains(resource)) {
      causes.push_back(
          krm::field_invalid(at(field, i), Json(text),
                             "if '" + resource + "/*' is present, must not specify " + text));
    }
    if (anywhere.contains(sub)) {
      causes.push_back(krm::field_invalid(
          at(field, i), Json(text), "if '*/" + sub + "' is present, must not specify " + text));
    }
    if (sub == "*") {
      whole.insert(resource);
    }
    if (resource == "*") {
      anywhere.insert(sub);
    }
  }
  if (list.size() > 1 && double_wildcard) {
    causes.push_back(krm::field_invalid(field, *rule.find("resources"),
                                        "if '*/*' is present, must not specify other resources"));
  }
  if (single_wildcard && plain) {
    causes.push_back(krm::field_invalid(
        field, *rule.find("resources"),
        "if '*' is present, must not specify other resources without subresources"));
  }
}

}  // namespace

void validate_rule(const Json& rule, const std::string& field, std::vector<Cause>& causes) {
  std::set<std::string> names;
  const Json::Array& given = items(rule, "resourceNames");
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string name(given[i].as_string());
    const std::string place = at(field + ".resourceNames", i);
    for (const std::string& fault : krm::check_path_segment(name)) {
      causes.push_back(krm::field_invalid(place, Json(name), fault));
    }
    if (!names.insert(name).second) {
      causes.push_back(krm::field_duplicate(place, Json(name)));
    }
  }
  static const Texts& operations = *new Texts{"*", "CONNECT", "CREATE", "DELETE", "UPDATE"};
  static const Texts& scopes = *new Texts{"*", "Cluster", "Namespaced"};
  const Json::Array& wanted = items(rule, "operations");
  require(!wanted.empty(), field + ".operations", causes);
  check_wildcard(rule, "operations", "operations", field + ".operations", causes);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::find(operations.begin(), operations.end(), wanted[i].as_string()) ==
        operations.end()) {
      causes.push_back(
          krm::field_not_supported(at(field + ".operations", i), wanted[i], operations));
    }
  }
  require(!items(rule, "apiGroups").empty(), field + ".apiGroups", causes);
  check_wildcard(rule, "apiGroups", "API groups", field + ".apiGroups", causes);
  const Json::Array& versions = items(rule, "apiVersions");
  require(!versions.empty(), field + ".apiVersions", causes);
  check_wildcard(rule, "apiVersions", "API versions", field + ".apiVersions", causes);
  for (std::size_t i = 0; i < versions.size(); ++i) {
    require(!versions[i].as_string().empty(), at(field + ".apiVersions", i), causes);
  }
  check_resources(rule, field + ".resources", causes);
  const Json* scope = rule.find("scope");
  if (scope != nullptr && !scope->is_null() &&
      std::find(scopes.begin(), scopes.end(), scope->as_string()) == scopes.end()) {
    causes.push_back(krm::field_not_supported(field + ".scope", *scope, scopes));
  }
}

void validate_label_selector(const Json& selector, const std::string& field,
                             std::vector<Cause>& causes) {
  if (const Json* labels = selector.find("matchLabels")) {
    for (const krm::JsonMember& member : labels->members()) {
      for (const std::string& fault : krm::check_qualified_name(member.key)) {
        causes.push_back(krm::field_invalid(field + ".matchLabels", Json(member.key), fault));
      }
      for (const std::string& fault : krm::check_label_value(member.value.as_string())) {
        causes.push_back(krm::field_invalid(field + ".matchLabels", member.value, fault));
      }
    }
  }
  const Json::Array& list = items(selector, "matchExpressions");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = at(field + ".matchExpressions", i);
    const std::string_view operation = list[i].text({"operator"});
    const Json::Array& values = items(list[i], "values");
    if (operation == "In" || operation == "NotIn") {
      if (values.empty()) {
        causes.push_back(krm::field_required(
            place + ".values", "must be specified when `operator` is 'In' or 'NotIn'"));
      }
    } else if (operation == "Exists" || operation == "DoesNotExist") {
      if (!values.empty()) {
        causes.push_back(krm::field_forbidden(
            place + ".values",
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
      }
    } else {
      causes.push_back(krm::field_invalid(place + ".operator", Json(operation),
                                          "not a valid selector operator"));
    }
    const std::string_view key = list[i].text({"key"});
    for (const std::string& fault : krm::check_qualified_name(key)) {
      causes.push_back(krm::field_invalid(place + ".key", Json(key), fault));
    }
    for (std::size_t j = 0; j < values.size(); ++j) {
      for (const std::string& fault : krm::check_label_value(values[j].as_string())) {
        causes.push_back(krm::field_invalid(at(place + ".values", j), values[j], fault));
      }
    }
  }
}

void validate_match_resources(const Json* resources, const std::string& field,
                              std::vector<Cause>& causes) {
  if (resources == nullptr || resources->is_null()) {
    return;
  }
  static const Texts& policies = *new Texts{"Equivalent", "Exact"};
  const Json* policy = resources->find("matchPolicy");
  if (policy == nullptr || policy->is_null()) {
    causes.push_back(krm::field_required(field + ".matchPolicy"));
  } else if (std::find(policies.begin(), policies.end(), policy->as_string()) == policies.end()) {
    causes.push_back(krm::field_not_supported(field + ".matchPolicy", *policy, policies));
  }
  for (const char* member : {"namespaceSelector", "objectSelector"}) {
    const Json* selector = resources->find(member);
    if (selector == nullptr || selector->is_null()) {
      causes.push_back(krm::field_required(field + "." + member));
    } else {
      validate_label_selector(*selector, field + "." + member, causes);
    }
  }
  for (const char* member : {"resourceRules", "excludeResourceRules"}) {
    const Json::Array& rules = items(*resources, member);
    for (std::size_t i = 0; i < rules.size(); ++i) {
      validate_rule(rules[i], at(field + "." + member, i), causes);
    }
  }
}

}  // namespace kintsugi::kinds
