#include "kinds/rbac/rbac.h"

#include <algorithm>
#include <array>
#include <utility>

#include "auth/effective_users.h"
#include "krm/annotations.h"
#include "krm/go_text.h"

namespace kintsugi::kinds {
namespace {

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";
constexpr std::array<std::string_view, 4> kResources = {"roles", "rolebindings", "clusterroles",
                                                        "clusterrolebindings"};

std::string describe(const Binding& binding, const Subject& subject) {
  std::string out = "RBAC: allowed by ";
  out += binding.ns.empty() ? "ClusterRoleBinding " : "RoleBinding ";
  out += krm::go_quote(binding.ns.empty() ? binding.name : binding.name + "/" + binding.ns);
  out += binding.to_cluster_role ? " of ClusterRole " : " of Role ";
  out += krm::go_quote(binding.role) + " to ";
  switch (subject.kind) {
    case Subject::Kind::kGroup:
      return out + "Group " + krm::go_quote(subject.name);
    case Subject::Kind::kServiceAccount:
      return out + "ServiceAccount " + krm::go_quote(subject.name + "/" + subject.ns);
    case Subject::Kind::kUser:
    case Subject::Kind::kOther:
      break;
  }
  return out + "User " + krm::go_quote(subject.name);
}

std::string cluster_of_object(const krm::Json& object) {
  return std::string(object.text({"metadata", "annotations", krm::kClusterAnnotation}));
}

}  // namespace

auth::UserInfo effective_user(const auth::UserInfo& user, std::string_view cluster) {
  return auth::effective_users(user, cluster).front();
}

RbacAuthorizer::RbacAuthorizer(RbacParams params) : params_(std::move(params)) {}

void RbacAuthorizer::start(apiserver::ApiServer& server) {
  for (const std::string_view resource : kResources) {
    subscriptions_.push_back(
        server.on_change(kRbacGroup, resource, [this](const apiserver::ApiServer::Change& change) {
          apply(change.cluster, change.resource, change.ns, change.name, change.object.get());
        }));
    server.reader().list("*", kRbacGroup, resource, "", [&](const krm::Json& object) {
      apply(cluster_of_object(object), resource, object.text({"metadata", "namespace"}),
            object.text({"metadata", "name"}), &object);
      return true;
    });
  }
}

void RbacAuthorizer::stop() noexcept { subscriptions_.clear(); }

void RbacAuthorizer::apply(std::string_view cluster, std::string_view resource, std::string_view ns,
                           std::string_view name, const krm::Json* object) {
  if (object == nullptr && clusters_.find(cluster) == clusters_.end()) {
    return;
  }
  auto position = clusters_.find(cluster);
  if (position == clusters_.end()) {
    position = clusters_.emplace(std::string(cluster), Cluster()).first;
  }
  Cluster& entry = position->second;
  const auto put = [&](auto& map, auto&& make) {
    if (object == nullptr) {
      if (const auto old = map.find(name); old != map.end()) {
        map.erase(old);
      }
      return;
    }
    map.insert_or_assign(std::string(name), make());
  };
  const auto put_in_namespace = [&](auto& maps, auto&& make) {
    auto map = maps.find(ns);
    if (map == maps.end()) {
      if (object == nullptr) {
        return;
      }
      map = maps.try_emplace(std::string(ns)).first;
    }
    put(map->second, make);
    if (map->second.empty()) {
      maps.erase(map);
    }
  };
  const auto make_role = [&] {
    return Role{std::make_shared<const PolicyRules>(parse_rules(*object)),
                aggregation_labels(*object)};
  };
  const auto make_binding = [&] { return parse_binding(*object, ns); };
  if (resource == "clusterroles") {
    put(entry.cluster_roles, make_role);
  } else if (resource == "clusterrolebindings") {
    put(entry.cluster_bindings, make_binding);
  } else if (resource == "roles") {
    put_in_namespace(entry.roles, make_role);
  } else if (resource == "rolebindings") {
    put_in_namespace(entry.bindings, make_binding);
  }
  if (entry.empty()) {
    clusters_.erase(position);
  }
}

const RbacAuthorizer::Cluster* RbacAuthorizer::cluster_of(std::string_view name) const {
  const auto found = clusters_.find(name);
  return found == clusters_.end() ? nullptr : &found->second;
}

bool RbacAuthorizer::is_admin(const auth::UserInfo& user) const {
  return std::any_of(params_.admin_groups.begin(), params_.admin_groups.end(),
                     [&](const std::string& group) { return user.in_group(group); });
}

void RbacAuthorizer::authorize(const auth::Attributes& attributes, Done done) {
  done(decide(attributes));
}

auth::Decision RbacAuthorizer::decide(const auth::Attributes& attributes) const {
  auth::Decision decision = evaluate(attributes);
  if (params_.mask_reasons) {
    decision.reason = decision.allowed ? "access granted" : "access denied";
  }
  return decision;
}

auth::Decision RbacAuthorizer::evaluate(const auth::Attributes& attributes) const {
  if (attributes.user.in_group(auth::kGroupMasters)) {
    return {true, {}};  // whatever his scopes are (KK-300); no warrant makes one so
  }
  const auto any = [&](const auto& test) {
    return auth::any_effective_user(attributes.user, attributes.cluster, test);
  };
  if (any([&](const auth::UserInfo& user) { return is_admin(user); })) {
    return {true, {}};
  }
  const auto enters = [&](const auth::UserInfo& user) {
    return may_enter(user, attributes.cluster);
  };
  auth::Decision decision;
  if (attributes.cluster == "*" || (!attributes.deep && !any(enters))) {
    return decision;
  }
  if (params_.workspace_access && !attributes.is_resource && attributes.verb == "access" &&
      attributes.path == "/" && !attributes.deep) {
    return {true, {}};  // that is what was just asked
  }
  static_cast<void>(any([&](const auth::UserInfo& user) {
    visit(
        user, attributes.cluster, attributes.is_resource ? attributes.ns : std::string_view(),
        [&](const PolicyRule& rule, const Binding& binding, const Subject& subject) {
          // Roles in a namespace never speak about paths.
          if ((!attributes.is_resource && !binding.ns.empty()) || !rule_allows(rule, attributes)) {
            return true;
          }
          decision.allowed = true;
          decision.reason = describe(binding, subject);
          return false;
        });
    return decision.allowed;
  }));
  return decision;
}

bool RbacAuthorizer::may_enter(const auth::UserInfo& user, std::string_view cluster) const {
  if (!params_.workspace_access || cluster.empty()) {
    return true;
  }
  if (auth::parse_service_account_user(user.name)) {
    const std::vector<std::string>* home = user.extra_values(auth::kExtraClusterName);
    if (home == nullptr || (home->size() == 1 && home->front() == cluster)) {
      return true;
    }
  }
  if (user.in_group(auth::kGroupAuthenticated) && is_open(cluster)) {
    return true;
  }
  auth::Attributes access;
  access.is_resource = false;
  access.verb = "access";
  access.path = "/";
  bool allowed = false;
  visit(user, cluster, {}, [&](const PolicyRule& rule, const Binding&, const Subject&) {
    allowed = rule_allows(rule, access);
    return !allowed;
  });
  return allowed;
}

bool RbacAuthorizer::is_open(std::string_view cluster) const {
  return std::find(params_.open_clusters.begin(), params_.open_clusters.end(), cluster) !=
         params_.open_clusters.end();
}

const RbacAuthorizer::Cluster* RbacAuthorizer::shared() const {
  return params_.shared_cluster.empty() ? nullptr : cluster_of(params_.shared_cluster);
}

bool RbacAuthorizer::visit_role(const Cluster* cluster, const Binding& binding,
                                const Subject& subject, const RuleVisitor& visitor) const {
  const auto visit_rules = [&](const PolicyRules& rules) {
    return std::all_of(rules.begin(), rules.end(),
                       [&](const PolicyRule& rule) { return visitor(rule, binding, subject); });
  };
  if (!binding.known_role_kind) {
    return true;
  }
  if (!binding.to_cluster_role) {
    if (cluster == nullptr) {
      return true;
    }
    const auto in_namespace = cluster->roles.find(binding.ns);
    if (in_namespace == cluster->roles.end()) {
      return true;
    }
    const auto role = in_namespace->second.find(binding.role);
    return role == in_namespace->second.end() || visit_rules(*role->second.rules);
  }
  const auto role_in = [&](const Cluster* place) -> const PolicyRules* {
    if (place == nullptr) {
      return nullptr;
    }
    const auto role = place->cluster_roles.find(binding.role);
    return role == place->cluster_roles.end() ? nullptr : role->second.rules.get();
  };
  if (const PolicyRules* own = role_in(cluster)) {
    return visit_rules(*own);
  }
  const BootstrapRole* known = bootstrap_role(binding.role);
  const PolicyRules* rules = role_in(shared());
  if (rules == nullptr && known != nullptr) {
    rules = &known->rules;
  }
  if (rules != nullptr && !visit_rules(*rules)) {
    return false;
  }
  if (known != nullptr && known->gathers != kToNone && cluster != nullptr) {
    for (const auto& [name, role] : cluster->cluster_roles) {
      if ((role.aggregates_to & known->gathers) != 0 && !visit_rules(*role.rules)) {
        return false;
      }
    }
  }
  return true;
}

void RbacAuthorizer::visit(const auth::UserInfo& user, std::string_view cluster,
                           std::string_view ns, const RuleVisitor& visitor) const {
  const Cluster* entry = cluster_of(cluster);
  const Cluster* everywhere = shared();
  const auto visit_binding = [&](const Cluster* roles, const Binding& binding) {
    const Subject* subject = matching_subject(binding, user);
    return subject == nullptr || visit_role(roles, binding, *subject, visitor);
  };
  const auto visit_bindings = [&](const Cluster* roles, const Bindings& bindings) {
    return std::all_of(bindings.begin(), bindings.end(),
                       [&](const auto& one) { return visit_binding(roles, one.second); });
  };
  const auto visit_bootstrap = [&](const std::vector<Binding>& bindings) {
    return std::all_of(bindings.begin(), bindings.end(), [&](const Binding& binding) {
      const Subject* subject = matching_subject(binding, user);
      const auto replaced = [&] {
        return everywhere != nullptr && everywhere->cluster_bindings.contains(binding.name);
      };
      return subject == nullptr || replaced() || visit_role(nullptr, binding, *subject, visitor);
    });
  };
  if (!visit_bootstrap(bootstrap_bindings())) {
    return;
  }
  if (is_open(cluster) &&
      (!visit_bootstrap(bootstrap_open_bindings()) ||
       (params_.open_clusters_are_read && !visit_bootstrap(bootstrap_reader_bindings())))) {
    return;
  }
  if (everywhere != nullptr && !visit_bindings(nullptr, everywhere->cluster_bindings)) {
    return;
  }
  if (entry == nullptr ||
      (entry != everywhere && !visit_bindings(entry, entry->cluster_bindings)) || ns.empty()) {
    return;
  }
  if (const auto bindings = entry->bindings.find(ns); bindings != entry->bindings.end()) {
    visit_bindings(entry, bindings->second);
  }
}

PolicyRules RbacAuthorizer::rules_for(const auth::UserInfo& user, std::string_view cluster,
                                      std::string_view ns) const {
  PolicyRules rules;
  static_cast<void>(auth::any_effective_user(user, cluster, [&](const auth::UserInfo& effective) {
    visit(effective, cluster, ns, [&](const PolicyRule& rule, const Binding&, const Subject&) {
      rules.push_back(rule);
      return true;
    });
    return false;
  }));
  return rules;
}

PolicyRules RbacAuthorizer::stored_rules_for(const auth::UserInfo& user, std::string_view cluster,
                                             std::string_view ns,
                                             std::vector<std::string>& absent_roles) const {
  PolicyRules rules;
  const Cluster* entry = cluster_of(cluster);
  if (entry == nullptr) {
    return rules;
  }
  const auto add = [&](const Bindings& bindings) {
    for (const auto& [name, bound] : bindings) {
      const Binding& binding = bound;  // clang 14 captures no structured binding
      const auto is_meant = [&](const auth::UserInfo& effective) {
        return matching_subject(binding, effective) != nullptr;
      };
      if (!auth::any_effective_user(user, cluster, is_meant)) {
        continue;
      }
      const std::shared_ptr<const PolicyRules> role =
          stored_role(cluster, binding.to_cluster_role, binding.ns, binding.role);
      if (role == nullptr) {
        absent_roles.push_back(binding.role);
      } else {
        rules.insert(rules.end(), role->begin(), role->end());
      }
    }
  };
  add(entry->cluster_bindings);
  if (const auto bindings = entry->bindings.find(ns); bindings != entry->bindings.end()) {
    add(bindings->second);
  }
  return rules;
}

std::shared_ptr<const PolicyRules> RbacAuthorizer::stored_role(std::string_view cluster,
                                                               bool cluster_role,
                                                               std::string_view ns,
                                                               std::string_view name) const {
  const Cluster* entry = cluster_of(cluster);
  if (entry == nullptr) {
    return nullptr;
  }
  const Roles* roles = &entry->cluster_roles;
  if (!cluster_role) {
    const auto in_namespace = entry->roles.find(ns);
    if (in_namespace == entry->roles.end()) {
      return nullptr;
    }
    roles = &in_namespace->second;
  }
  const auto found = roles->find(name);
  return found == roles->end() ? nullptr : found->second.rules;
}

}  // namespace kintsugi::kinds
