#include "controlplane/controllers/binding_policy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "auth/effective_users.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kPrefix = "apis.kcp.io:binding:";

std::string key_of(const ExportRef& ref) { return ref.cluster + "/" + ref.name; }

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
    const bool before = known->second;
    policies_.erase(known);
    if (has_policy(ref) != before) {
      bound_.visit_consumers(ref.cluster, changed_);
    }
  });
}

void PolicyAuthorizer::rights_changed(std::string_view cluster) const {
  const bool matters = std::any_of(policies_.begin(), policies_.end(), [cluster](const auto& one) {
    return one.second && one.first.size() > cluster.size() && one.first.starts_with(cluster) &&
           one.first[cluster.size()] == '/';
  });
  if (matters) {
    bound_.visit_consumers(cluster, changed_);
  }
}

bool PolicyAuthorizer::has_policy(const ExportRef& ref) {
  const std::string key = key_of(ref);
  if (const auto known = policies_.find(key); known != policies_.end()) {
    return known->second;
  }
  const std::optional<krm::Json> object = catalog_.get_export(ref);
  const krm::Json* local =
      object ? object->at({"spec", "maximalPermissionPolicy", "local"}) : nullptr;
  return policies_.emplace(key, local != nullptr && local->is_object()).first->second;
}

bool PolicyAuthorizer::is_within_policy(const auth::Attributes& attributes) {
  if (attributes.deep || !attributes.is_resource || attributes.user.in_group(auth::kGroupMasters)) {
    return true;
  }
  const ExportRef* ref =
      bound_.export_of(attributes.cluster, attributes.group, attributes.resource);
  if (ref == nullptr || !has_policy(*ref)) {
    return true;
  }
  return allows_in_policy(rbac_, attributes, ref->cluster);
}

void PolicyAuthorizer::authorize(const auth::Attributes& attributes, Done done) {
  auth::Decision decision = rbac_.decide(attributes);
  if (decision.allowed && !is_within_policy(attributes)) {
    decision = {false, "access denied"};
  }
  done(std::move(decision));
}

}  // namespace kintsugi::controlplane
