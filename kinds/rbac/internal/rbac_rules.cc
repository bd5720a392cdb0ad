#include "kinds/rbac/internal/rbac_rules.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "krm/go_text.h"

namespace kintsugi::kinds {
namespace {

using Texts = std::vector<std::string>;

Texts texts_of(const krm::Json& rule, std::string_view key) {
  Texts out;
  if (const krm::Json* list = rule.find(key)) {
    out.reserve(list->size());
    for (const krm::Json& item : list->items()) {
      if (item.is_string()) {
        out.emplace_back(item.as_string());
      }
    }
  }
  return out;
}

bool contains(const Texts& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool has_or_all(const Texts& list, std::string_view text) {
  return contains(list, "*") || contains(list, text);
}

bool resource_matches(const Texts& resources, std::string_view resource,
                      std::string_view subresource) {
  return std::any_of(resources.begin(), resources.end(), [&](std::string_view pattern) {
    if (pattern == "*") {
      return true;
    }
    if (subresource.empty()) {
      return pattern == resource;
    }
    const std::size_t slash = pattern.find('/');
    if (slash == std::string_view::npos || pattern.substr(slash + 1) != subresource) {
      return false;
    }
    const std::string_view head = pattern.substr(0, slash);
    return head == "*" || head == resource;
  });
}

bool url_matches(const Texts& urls, std::string_view path) {
  return std::any_of(urls.begin(), urls.end(), [&](std::string_view pattern) {
    if (pattern == "*" || pattern == path) {
      return true;
    }
    return pattern.ends_with('*') && path.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

/// Whether one held rule covers a rule of one verb and one resource or URL.
bool covers(const PolicyRule& held, const PolicyRule& part) {
  if (!has_or_all(held.verbs, part.verbs.front())) {
    return false;
  }
  if (!part.non_resource_urls.empty()) {
    const std::string& url = part.non_resource_urls.front();
    return url_matches(held.non_resource_urls, url);
  }
  const std::string_view resource = part.resources.front();
  const std::size_t slash = resource.find('/');
  const bool resource_covered =
      has_or_all(held.resources, resource) ||
      (slash != std::string_view::npos &&
       contains(held.resources, "*" + std::string(resource.substr(slash))));
  if (!resource_covered || !has_or_all(held.api_groups, part.api_groups.front())) {
    return false;
  }
  return held.resource_names.empty() ||
         (!part.resource_names.empty() &&
          contains(held.resource_names, part.resource_names.front()));
}

/// Rules with one verb and one resource (and at most one name) or one URL each.
PolicyRules break_down(const PolicyRule& rule) {
  PolicyRules parts;
  for (const std::string& group : rule.api_groups) {
    for (const std::string& resource : rule.resources) {
      for (const std::string& verb : rule.verbs) {
        PolicyRule part{{verb}, {group}, {resource}, {}, {}};
        if (rule.resource_names.empty()) {
          parts.push_back(part);
        }
        for (const std::string& name : rule.resource_names) {
          part.resource_names = {name};
          parts.push_back(part);
        }
      }
    }
  }
  for (const std::string& url : rule.non_resource_urls) {
    for (const std::string& verb : rule.verbs) {
      parts.push_back(PolicyRule{{verb}, {}, {}, {}, {url}});
    }
  }
  return parts;
}

}  // namespace

PolicyRules parse_rules(const krm::Json& role) {
  PolicyRules rules;
  const krm::Json* list = role.find("rules");
  if (list == nullptr) {
    return rules;
  }
  rules.reserve(list->size());
  for (const krm::Json& item : list->items()) {
    rules.push_back(PolicyRule{texts_of(item, "verbs"), texts_of(item, "apiGroups"),
                               texts_of(item, "resources"), texts_of(item, "resourceNames"),
                               texts_of(item, "nonResourceURLs")});
  }
  return rules;
}

krm::Json rules_to_json(const PolicyRules& rules) {
  krm::Json out = krm::Json::array();
  for (const PolicyRule& rule : rules) {
    krm::Json item = krm::Json::object();
    const auto put = [&](std::string_view key, const Texts& texts) {
      if (texts.empty()) {
        return;
      }
      krm::Json list = krm::Json::array();
      for (const std::string& text : texts) {
        list.push_back(krm::Json(text));
      }
      item[key] = std::move(list);
    };
    put("verbs", rule.verbs);
    put("apiGroups", rule.api_groups);
    put("resources", rule.resources);
    put("resourceNames", rule.resource_names);
    put("nonResourceURLs", rule.non_resource_urls);
    out.push_back(std::move(item));
  }
  return out;
}

bool rule_allows(const PolicyRule& rule, const auth::Attributes& attributes) {
  if (!has_or_all(rule.verbs, attributes.verb)) {
    return false;
  }
  if (!attributes.is_resource) {
    return url_matches(rule.non_resource_urls, attributes.path);
  }
  if (!has_or_all(rule.api_groups, attributes.group) ||
      !resource_matches(rule.resources, attributes.resource, attributes.subresource)) {
    return false;
  }
  if (rule.resource_names.empty()) {
    return true;
  }
  const bool by_selector = attributes.verb == "list" || attributes.verb == "watch";
  const std::string& name =
      attributes.name.empty() && by_selector ? attributes.field_selector_name : attributes.name;
  return !name.empty() && contains(rule.resource_names, name);
}

PolicyRules missing_rules(const PolicyRules& held, const PolicyRules& wanted) {
  PolicyRules missing;
  for (const PolicyRule& rule : wanted) {
    for (PolicyRule& part : break_down(rule)) {
      const bool covered = std::any_of(held.begin(), held.end(),
                                       [&](const PolicyRule& one) { return covers(one, part); });
      if (covered) {
        continue;
      }
      // One rule per group, resource and name; only its verbs add up.
      const auto same = std::find_if(missing.begin(), missing.end(), [&](const PolicyRule& other) {
        return other.non_resource_urls.empty() && part.non_resource_urls.empty() &&
               other.api_groups == part.api_groups && other.resources == part.resources &&
               other.resource_names == part.resource_names;
      });
      if (same == missing.end()) {
        missing.push_back(std::move(part));
      } else if (!contains(same->verbs, part.verbs.front())) {
        same->verbs.push_back(std::move(part.verbs.front()));
      }
    }
  }
  return missing;
}

std::string describe_list(const Texts& items) {
  std::string out = "[";
  for (const std::string& item : items) {
    if (out.size() > 1) {
      out += ' ';
    }
    out += krm::go_quote(item);
  }
  return out + "]";
}

std::string describe_rule(const PolicyRule& rule) {
  std::string out;
  const auto put = [&](std::string_view name, const Texts& items) {
    if (items.empty()) {
      return;
    }
    out += out.empty() ? "{" : ", ";
    out += name;
    out += ':' + describe_list(items);
  };
  put("APIGroups", rule.api_groups);
  put("Resources", rule.resources);
  put("NonResourceURLs", rule.non_resource_urls);
  put("ResourceNames", rule.resource_names);
  put("Verbs", rule.verbs);
  return out + "}";
}

Binding parse_binding(const krm::Json& object, std::string_view ns) {
  Binding binding;
  binding.name = object.text({"metadata", "name"});
  binding.ns = ns;
  const std::string_view role_kind = object.text({"roleRef", "kind"});
  binding.to_cluster_role = role_kind == "ClusterRole";
  binding.known_role_kind = binding.to_cluster_role || role_kind == "Role";
  binding.role = object.text({"roleRef", "name"});
  if (const krm::Json* subjects = object.find("subjects")) {
    for (const krm::Json& item : subjects->items()) {
      Subject subject;
      const std::string_view kind = item.text({"kind"});
      subject.kind = kind == "User"             ? Subject::Kind::kUser
                     : kind == "Group"          ? Subject::Kind::kGroup
                     : kind == "ServiceAccount" ? Subject::Kind::kServiceAccount
                                                : Subject::Kind::kOther;
      subject.name = item.text({"name"});
      subject.ns = item.text({"namespace"});
      if (subject.kind == Subject::Kind::kServiceAccount && subject.ns.empty()) {
        subject.ns = binding.ns;
      }
      binding.subjects.push_back(std::move(subject));
    }
  }
  return binding;
}

const Subject* matching_subject(const Binding& binding, const auth::UserInfo& user) {
  for (const Subject& subject : binding.subjects) {
    switch (subject.kind) {
      case Subject::Kind::kUser:
        if (subject.name == user.name) {
          return &subject;
        }
        break;
      case Subject::Kind::kGroup:
        if (user.in_group(subject.name)) {
          return &subject;
        }
        break;
      case Subject::Kind::kServiceAccount:
        if (!subject.ns.empty() &&
            user.name == auth::service_account_user(subject.ns, subject.name)) {
          return &subject;
        }
        break;
      case Subject::Kind::kOther:
        break;
    }
  }
  return nullptr;
}

}  // namespace kintsugi::kinds
