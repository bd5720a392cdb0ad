#include "controlplane/controllers/binding_policy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "auth/effective_users.h"
#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kPrefix = "apis.kcp.io:binding:";

std::string key_of(const ExportRef& ref) { return ref.cluster + "/" + ref.name; }

bool is_read_verb(std::string_view verb) {
  return verb == "get" || verb == "list" || verb == "watch";
}

}  // namespace

std::vector<auth::UserInfo> policy_users(const auth::UserInfo& user,
                                         std::string_view export_cluster) {
  std::vector<auth::UserInfo> out;
  for (const auth::UserInfo& one : auth::effective_users(user, export_cluster)) {
    auth::UserInfo& prefixed = out.emplace_back();
    prefixed.name = std::string(kPrefix) + one.name;
    for (const std::string& group : one.groups) {
      prefixed.groups.push_back(std::string(kPrefix) + group);
    }
  }
  return out;
}

bool allows_in_policy(const kinds::RbacAuthorizer& rbac, const auth::Attributes& attributes,
                      std::string_view export_cluster) {
  auth::Attributes asked = attributes;
  asked.cluster = export_cluster;
  asked.deep = true;
  for (auth::UserInfo& user : policy_users(attributes.user, export_cluster)) {
    asked.user = std::move(user);
    if (rbac.decide(asked).allowed) {
      return true;
    }
  }
  return false;
}

void PolicyAuthorizer::start(Changed changed) {
  changed_ = std::move(changed);
  catalog_.on_export([this](const ExportRef& ref) {
    const auto known = policies_.find(key_of(ref));
    if (known == policies_.end()) {
      return;
    }
    const Known before = known->second;
    policies_.erase(known);
    if (!(policy_of(ref) == before)) {
      bound_.visit_consumers(ref.cluster, changed_);
    }
  });
}

void PolicyAuthorizer::rights_changed(std::string_view cluster) const {
  const bool matters = std::any_of(policies_.begin(), policies_.end(), [cluster](const auto& one) {
    return one.second.policed && one.first.size() > cluster.size() &&
           one.first.starts_with(cluster) && one.first[cluster.size()] == '/';
  });
  if (matters) {
    bound_.visit_consumers(cluster, changed_);
  }
}

const PolicyAuthorizer::Known& PolicyAuthorizer::policy_of(const ExportRef& ref) {
  const std::string key = key_of(ref);
  if (const auto known = policies_.find(key); known != policies_.end()) {
    return known->second;
  }
  Known known;
  if (const std::optional<krm::Json> object = catalog_.get_export(ref)) {
    const krm::Json* local = object->at({"spec", "maximalPermissionPolicy", kLocalPolicy});
    known = {std::string(object->text({"metadata", "uid"})),
             local != nullptr && local->is_object()};
  }
  return policies_.emplace(key, std::move(known)).first->second;
}

bool PolicyAuthorizer::is_within_policy(const auth::Attributes& attributes) {
  if (attributes.deep || !attributes.is_resource || attributes.user.in_group(auth::kGroupMasters)) {
    return true;
  }
  const BoundKinds::From* from =
      bound_.export_of(attributes.cluster, attributes.group, attributes.resource);
  if (from == nullptr) {
    return true;
  }
  const Known& known = policy_of(from->ref);
  if (known.uid.empty() || (!from->uid.empty() && known.uid != from->uid)) {
    // KK-313: it is gone, and nobody can say what its policy would allow.
    return !from->policed || is_read_verb(attributes.verb);
  }
  return !known.policed || allows_in_policy(rbac_, attributes, from->ref.cluster);
}

void PolicyAuthorizer::authorize(const auth::Attributes& attributes, Done done) {
  auth::Decision decision = rbac_.decide(attributes);
  if (decision.allowed && !is_within_policy(attributes)) {
    decision = {false, "access denied"};
  }
  done(std::move(decision));
}

}  // namespace kintsugi::controlplane
