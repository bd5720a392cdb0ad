#include "auth/audit_policy.h"

#include <algorithm>
#include <map>
#include <utility>

#include "auth/audit_event.h"
#include "krm/yaml.h"

namespace kintsugi::auth {
namespace {

using krm::Json;
using Level = AuditPolicy::Level;
using Resources = AuditPolicy::Resources;
using Rule = AuditPolicy::Rule;
using Texts = std::vector<std::string>;

constexpr std::size_t kMostRules = 10'000;

constexpr std::pair<std::string_view, Level> kLevels[] = {
    {"None", Level::kNone},
    {"Metadata", Level::kMetadata},
    {"Request", Level::kRequest},
    {"RequestResponse", Level::kRequestResponse}};
constexpr std::string_view kStages[] = {"RequestReceived", kResponseStarted, kResponseComplete,
                                        "Panic"};
constexpr std::pair<std::string_view, Texts Rule::*> kTextsOfRule[] = {
    {"users", &Rule::users},          {"userGroups", &Rule::groups},
    {"verbs", &Rule::verbs},          {"namespaces", &Rule::namespaces},
    {"nonResourceURLs", &Rule::urls}, {"omitStages", &Rule::omitted}};

bool holds(const Texts& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

/// A "*" stands for everything, at the end of a path for every path that begins so.
bool is_url_pattern(std::string_view text) {
  const std::size_t star = text.find('*');
  return text == "*" ||
         (text.starts_with('/') && (star == std::string_view::npos || star + 1 == text.size()));
}

/// Reads a policy; what is wrong first ends it.
class Reader {
 public:
  Reader(const std::string& file, const std::map<std::string, std::size_t>& lines)
      : file_(file), lines_(lines) {}

  [[nodiscard]] Expected<std::vector<Rule>> read(const Json& policy) {
    std::vector<Rule> rules;
    Texts omitted;
    for (const krm::JsonMember& member : policy.members()) {
      if (member.key == "rules") {
        read_rules(member.value, rules);
      } else if (member.key == "omitStages") {
        take_texts(member.value, member.key, omitted);
      } else if (member.key != "apiVersion" && member.key != "kind" && member.key != "metadata" &&
                 member.key != "omitManagedFields") {
        blame(member.key, "unknown key");
      }
    }
    judge_stages(omitted, "omitStages");
    if (policy.text({"apiVersion"}) != "audit.k8s.io/v1" || policy.text({"kind"}) != "Policy") {
      blame("kind", "must be Policy of apiVersion audit.k8s.io/v1");
    } else if (rules.empty()) {
      blame("rules", "must have a rule");
    }
    if (!fault_.empty()) {
      return fail(Errc::kConfig, fault_);
    }
    for (Rule& rule : rules) {
      rule.omitted.insert(rule.omitted.end(), omitted.begin(), omitted.end());
    }
    return rules;
  }

 private:
  void blame(const std::string& key, std::string_view what) {
    if (!fault_.empty()) {
      return;
    }
    const auto line = lines_.find(key);
    fault_ = file_ + ":" + std::to_string(line == lines_.end() ? 1 : line->second) + ": " + key +
             ": " + std::string(what);
  }

  void take_texts(const Json& value, const std::string& key, Texts& target) {
    if (!value.is_array() && !value.is_null()) {
      blame(key, "must be a list of texts");
    }
    for (const Json& item : value.items()) {
      if (!item.is_string()) {
        blame(key, "must be a list of texts");
      }
      target.emplace_back(item.as_string());
    }
  }

  void judge_stages(const Texts& stages, const std::string& key) {
    for (const std::string& stage : stages) {
      if (std::find(std::begin(kStages), std::end(kStages), stage) == std::end(kStages)) {
        blame(key, "\"" + stage + "\" is no stage");
      }
    }
  }

  void read_rules(const Json& value, std::vector<Rule>& rules) {
    if (!value.is_array() || value.size() > kMostRules) {
      blame("rules", "must be a list of at most " + std::to_string(kMostRules) + " rules");
      return;
    }
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      read_rule(value.items()[i], "rules[" + std::to_string(i) + "]", rules.emplace_back());
    }
  }

  void read_rule(const Json& value, const std::string& at, Rule& rule) {
    for (const krm::JsonMember& member : value.members()) {
      const std::string key = at + "." + member.key;
      const auto* const texts =
          std::find_if(std::begin(kTextsOfRule), std::end(kTextsOfRule),
                       [&](const auto& known) { return known.first == member.key; });
      if (texts != std::end(kTextsOfRule)) {
        take_texts(member.value, key, rule.*(texts->second));
      } else if (member.key == "resources") {
        read_resources(member.value, key, rule);
      } else if (member.key != "level" && member.key != "omitManagedFields") {
        blame(key, "unknown key");
      }
    }
    const auto* const level =
        std::find_if(std::begin(kLevels), std::end(kLevels),
                     [&](const auto& known) { return known.first == value.text({"level"}); });
    if (level == std::end(kLevels)) {
      blame(at + ".level", "must be one of None, Metadata, Request, RequestResponse");
    } else {
      rule.level = level->second;
    }
    judge_stages(rule.omitted, at + ".omitStages");
    if (!std::all_of(rule.urls.begin(), rule.urls.end(), is_url_pattern)) {
      blame(at + ".nonResourceURLs", "must be paths, with * at their end only");
    }
    if (!rule.urls.empty() && (!rule.resources.empty() || !rule.namespaces.empty())) {
      blame(at + ".nonResourceURLs", "cannot be in one rule with resources or namespaces");
    }
  }

  void read_resources(const Json& value, const std::string& at, Rule& rule) {
    if (!value.is_array()) {
      blame(at, "must be a list");
    }
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      const std::string place = at + "[" + std::to_string(i) + "]";
      Resources& resources = rule.resources.emplace_back();
      for (const krm::JsonMember& member : value.items()[i].members()) {
        const std::string key = place + "." + member.key;
        if (member.key == "group" && member.value.is_string()) {
          resources.group = member.value.as_string();
        } else if (member.key == "resources") {
          take_texts(member.value, key, resources.resources);
        } else if (member.key == "resourceNames") {
          take_texts(member.value, key, resources.names);
        } else {
          blame(key, member.key == "group" ? "must be text" : "unknown key");
        }
      }
      if (resources.group.find('/') != std::string::npos) {
        blame(place + ".group", "must be a group without a version");
      }
      if (!resources.names.empty() && resources.resources.empty()) {
        blame(place + ".resourceNames", "cannot be without resources");
      }
    }
  }

  const std::string& file_;
  const std::map<std::string, std::size_t>& lines_;
  std::string fault_;
};

/// "pods", "pods/log", "pods/*", "*/log", "*"
bool matches_resource(std::string_view pattern, const krm::RequestInfo& info) {
  const std::size_t slash = pattern.find('/');
  if (slash == std::string_view::npos) {
    return pattern == "*" || (info.subresource.empty() && pattern == info.resource);
  }
  const std::string_view resource = pattern.substr(0, slash), sub = pattern.substr(slash + 1);
  if (sub == "*" && resource == info.resource) {
    return true;
  }
  return !info.subresource.empty() && sub == info.subresource &&
         (resource == "*" || resource == info.resource);
}

bool matches_object(const Rule& rule, const krm::RequestInfo& info) {
  if (!info.is_resource || (!rule.namespaces.empty() && !holds(rule.namespaces, info.ns))) {
    return false;
  }
  return rule.resources.empty() ||
         std::any_of(rule.resources.begin(), rule.resources.end(), [&](const Resources& one) {
           return one.group == info.group &&
                  (one.resources.empty() || ((one.names.empty() || holds(one.names, info.name)) &&
                                             std::any_of(one.resources.begin(), one.resources.end(),
                                                         [&](const std::string& name) {
                                                           return matches_resource(name, info);
                                                         })));
         });
}

bool matches_url(const Rule& rule, const krm::RequestInfo& info) {
  return !info.is_resource &&
         std::any_of(rule.urls.begin(), rule.urls.end(), [&](std::string_view url) {
           return url == "*" || url == info.path ||
                  (url.ends_with('*') && info.path.starts_with(url.substr(0, url.size() - 1)));
         });
}

bool matches(const Rule& rule, const krm::RequestInfo& info, const UserInfo* user) {
  if (!rule.users.empty() && (user == nullptr || !holds(rule.users, user->name))) {
    return false;
  }
  if (!rule.groups.empty() &&
      (user == nullptr ||
       std::none_of(rule.groups.begin(), rule.groups.end(),
                    [&](const std::string& group) { return holds(user->groups, group); }))) {
    return false;
  }
  if (!rule.verbs.empty() && !holds(rule.verbs, info.verb)) {
    return false;
  }
  if (!rule.namespaces.empty() || !rule.resources.empty()) {
    return matches_object(rule, info);
  }
  return rule.urls.empty() || matches_url(rule, info);
}

}  // namespace

AuditPolicy::AuditPolicy() { rules_.emplace_back().level = Level::kMetadata; }

Expected<AuditPolicy> AuditPolicy::parse(std::string_view yaml, const std::string& file) {
  krm::YamlReport report;
  report.collect_lines = true;
  auto policy = krm::parse_yaml(yaml, &report);
  if (!policy) {
    return fail(Errc::kConfig, file + ": " + std::string(policy.error().message()));
  }
  if (!report.duplicate_keys.empty()) {
    return fail(Errc::kConfig, file + ": " + report.duplicate_keys.front());
  }
  auto rules = Reader(file, report.key_lines).read(*policy);
  if (!rules) {
    return fail(std::move(rules.error()));
  }
  return AuditPolicy(std::move(*rules));
}

AuditPolicy::Verdict AuditPolicy::judge(const krm::RequestInfo& info, const UserInfo* user) const {
  const auto rule = std::find_if(rules_.begin(), rules_.end(),
                                 [&](const Rule& one) { return matches(one, info, user); });
  if (rule == rules_.end()) {
    return {};
  }
  return {rule->level, !holds(rule->omitted, kResponseStarted),
          !holds(rule->omitted, kResponseComplete)};
}

bool AuditPolicy::wants_bodies() const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [](const Rule& rule) { return rule.level > Level::kMetadata; });
}

}  // namespace kintsugi::auth
