#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/user.h"
#include "kinds/rbac/rbac.h"
#include "krm/json.h"

namespace kintsugi::kinds::testing {

using krm::Json;
using Texts = std::vector<std::string>;

inline Json json(std::string_view text) {
  Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? std::move(*parsed) : Json();
}

inline auth::UserInfo user_of(const char* name, Texts groups = {"system:authenticated"}) {
  auth::UserInfo user;
  user.name = name;
  user.groups = std::move(groups);
  return user;
}

/// Roles and bindings by their JSON, and questions to them.
class Rbac : public ::testing::Test {
 protected:
  void put(std::string_view resource, std::string_view ns, const char* name, std::string_view body,
           std::string_view cluster = "c") {
    Json object = json(body);
    object.make({"metadata", "name"}) = name;
    if (!ns.empty()) {
      object.make({"metadata", "namespace"}) = ns;
    }
    rbac_->apply(cluster, resource, ns, name, &object);
  }
  /// A Role of these rules bound to user bob in namespace t1.
  void give_bob(const std::string& rules) {
    put("roles", "t1", "r", R"({"rules":)" + rules + "}");
    put("rolebindings", "t1", "b",
        R"({"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"bob"}]})");
  }
  void bind_cluster_role(const char* binding, const char* role, const char* subject,
                         std::string_view cluster = "c") {
    put("clusterrolebindings", "", binding,
        std::string(R"({"roleRef":{"kind":"ClusterRole","name":")") + role + R"("},"subjects":[)" +
            subject + "]}",
        cluster);
  }
  auth::Decision ask(const auth::UserInfo& user, const char* verb, std::string_view resource,
                     const char* ns = "t1", const char* name = "", const char* group = "",
                     std::string_view cluster = "c") {
    auth::Attributes attributes;
    attributes.user = user;
    attributes.cluster = cluster;
    attributes.verb = verb;
    attributes.group = group;
    attributes.resource = resource.substr(0, resource.find('/'));
    if (resource.find('/') != std::string_view::npos) {
      attributes.subresource = resource.substr(resource.find('/') + 1);
    }
    attributes.ns = ns;
    attributes.name = name;
    return rbac_->decide(attributes);
  }
  bool get_path(const auth::UserInfo& user, const char* path, const char* verb = "get",
                std::string_view cluster = "c") {
    auth::Attributes attributes;
    attributes.user = user;
    attributes.cluster = cluster;
    attributes.is_resource = false;
    attributes.verb = verb;
    attributes.path = path;
    return rbac_->decide(attributes).allowed;
  }
  void options(RbacParams params) { rbac_ = std::make_unique<RbacAuthorizer>(std::move(params)); }

  std::unique_ptr<RbacAuthorizer> rbac_ = std::make_unique<RbacAuthorizer>(RbacParams());
  auth::UserInfo bob_ = user_of("bob");
};

}  // namespace kintsugi::kinds::testing
