#include "controlplane/controllers/home_workspace.h"

#include <optional>
#include <utility>

#include "auth/effective_users.h"
#include "auth/user_document.h"
#include "controlplane/catalog/shard_kinds.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/finalizers.h"
#include "krm/request_info.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kHomeType = "home";
constexpr int kRetryAfter = 1;  // [s]

Error being_made() {
  Error error(Errc::kTooManyRequests, "Creating the home workspace");
  error.edit().retry_after_seconds = kRetryAfter;
  return error;
}

/// A home is nobody's Workspace, and his who made it (KK-104, KK-107).
bool is_home_of(std::string_view user, const Json& logical_cluster) {
  return logical_cluster.at({"spec", "owner"}) == nullptr &&
         logical_cluster.text({"spec", "createdBy", "username"}) == user;
}

Json shown(const std::string& cluster, const Json& logical_cluster) {
  Json workspace = Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"}, {"kind", "Workspace"}});
  Json& meta = workspace["metadata"];
  meta["name"] = kClusterName;
  meta["creationTimestamp"] = logical_cluster.text({"metadata", "creationTimestamp"});
  Json& spec = workspace["spec"];
  spec["cluster"] = cluster;
  spec["URL"] = logical_cluster.text({"status", "URL"});
  Json& status = workspace["status"];
  status = Json::object({{"phase", logical_cluster.text({"status", "phase"})}});
  for (const std::string_view field : {"conditions", "initializers"}) {
    if (const Json* value = logical_cluster.at({"status", field})) {
      status[field] = *value;
    }
  }
  return workspace;
}

}  // namespace

bool has_home(const auth::UserInfo& user) noexcept {
  return !user.name.empty() && user.in_group(auth::kGroupAuthenticated) &&
         !auth::parse_service_account_user(user.name) && auth::in_scope(user, kRootCluster);
}

bool is_home_request(const auth::Attributes& attributes) noexcept {
  return attributes.is_resource && attributes.verb == "get" && attributes.name == kHomeName &&
         attributes.cluster == kRootCluster && attributes.resource == kWorkspaces &&
         attributes.group == kTenancyGroup && attributes.subresource.empty() &&
         has_home(attributes.user);
}

std::string home_path(std::string_view user_name) {
  return krm::is_cluster_name(user_name) ? "user:" + std::string(user_name)
                                         : krm::home_cluster_name(user_name);
}

bool HomeWorkspaces::get(const auth::UserInfo& user, std::string_view cluster,
                         std::string_view name, const apiserver::Hooks::GetDone& done) {
  if (name != kHomeName || cluster != kRootCluster || !has_home(user)) {
    return false;
  }
  const std::string home = krm::home_cluster_name(user.name);
  const std::optional<Json> found =
      server_->reader().get(home, kCoreGroup, kLogicalClusters, "", kClusterName);
  if (!found) {
    make(user, home, done);
    return true;
  }
  if (!is_home_of(user.name, *found)) {
    note_untrusted(UntrustedValue::kHome, home, user.name, "made for somebody else");
    done(fail(Error(Errc::kConflict, "home workspace name is taken")));
    return true;
  }
  const std::string_view phase = found->text({"status", "phase"});
  if (phase.empty() || phase == "Scheduling" || phase == "Initializing") {
    done(fail(being_made()));
  } else {
    done(shown(home, *found));
  }
  return true;
}

void HomeWorkspaces::make(const auth::UserInfo& user, std::string cluster,
                          const apiserver::Hooks::GetDone& done) {
  const std::optional<FoundType> type = types_.find(server_->reader(), kRootCluster, kHomeType);
  if (!type) {
    done(fail(krm::unavailable("the workspace type root:home is not known yet", kRetryAfter)));
    return;
  }
  Json object = Json::object({{"apiVersion", "core.kcp.io/v1alpha1"}, {"kind", "LogicalCluster"}});
  object.make({"metadata", "name"}) = kClusterName;
  object.make({"metadata", "finalizers"}).push_back(Json(krm::kLogicalClusterFinalizer));
  Json owner = clean_owner(user_document(user));
  Json& annotations = object.make({"metadata", "annotations"});
  annotations[krm::kPathAnnotation] = home_path(user.name);
  annotations[krm::kTypeAnnotation] = type->full_name();
  annotations[krm::kShardAnnotation] = shard_;
  annotations[krm::kResourceBindingsAnnotation] = "{}";
  annotations[krm::kOwnerAnnotation] =
      Json::object({{"username", owner.text({"username"})}}).dump();
  object.make({"spec", "createdBy"}) = std::move(owner);
  object.make({"spec", "directlyDeletable"}) = false;
  for (const std::string& name : types_.initializers(server_->reader(), *type)) {
    object.make({"spec", "initializers"}).push_back(Json(name));
  }
  for (const std::string& name : types_.terminators(server_->reader(), *type)) {
    object.make({"spec", "terminators"}).push_back(Json(name));
  }
  apiserver::ApiServer::WriteRequest request;
  request.cluster = std::move(cluster);
  request.group = kCoreGroup;
  request.resource = kLogicalClusters;
  request.name = kClusterName;
  request.manager = "kintsugi-home-workspaces";
  request.skip_admission = true;
  request.what = apiserver::ApiServer::CreateObject{std::move(object)};
  server_->write(std::move(request), [done](Expected<Json> made) {
    if (!made && made.error().code() != Errc::kAlreadyExists) {
      done(fail(std::move(made.error())));
    } else {
      done(fail(being_made()));
    }
  });
}

}  // namespace kintsugi::controlplane
