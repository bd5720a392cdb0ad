#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "controlplane/controllers/workspace_types.h"

/// The workspace that every user has without asking anybody for it.
/// Source: KK-105, KK-106, KK-107.
namespace kintsugi::controlplane {

/// Its name among the Workspaces of root; nothing is stored there.
inline constexpr std::string_view kHomeName = "~";

/// True for those that have a home: users who are known by a name that is theirs everywhere.
/// ServiceAccounts and identities that hold in some clusters only have none.
[[nodiscard]] bool has_home(const auth::UserInfo& user) noexcept;

/// `GET …/clusters/root/…/workspaces/~` by a user that has a home; needs no rights in root.
[[nodiscard]] bool is_home_request(const auth::Attributes& attributes) noexcept;

/// Canonical path of a user's home: "user:<name>" where the name can stand in a path, else the name
/// of its logical cluster.
[[nodiscard]] std::string home_path(std::string_view user_name);

/// Answers get of Workspaces named `~`. A user's home is a logical cluster of type root:home on the
/// root shard, named by krm::home_cluster_name; the first request makes it, with the user as its
/// administrator (the rest is LogicalClusterController's). Until it is Ready the answer is
/// kTooManyRequests with retry_after_seconds; then a Workspace, as kcp shows it: named `cluster`,
/// without type, uid and resourceVersion. Threads: one loop.
class HomeWorkspaces {
 public:
  /// @param types must outlive it. @param shard name of this shard.
  HomeWorkspaces(const WorkspaceTypeLookup& types, std::string shard)
      : types_(types), shard_(std::move(shard)) {}
  /// Before the first request; the server must outlive this.
  void start(apiserver::ApiServer& server) noexcept { server_ = &server; }

  /// For Hooks::computed of Workspaces.
  /// @error kTooManyRequests it is being made; kConflict the logical cluster under its name was
  ///        made by another user or for a Workspace (KK-107); kUnavailable the type is not known
  ///        yet.
  [[nodiscard]] bool get(const auth::UserInfo& user, std::string_view cluster,
                         std::string_view name, const apiserver::Hooks::GetDone& done);

 private:
  void make(const auth::UserInfo& user, std::string cluster, const apiserver::Hooks::GetDone& done);

  const WorkspaceTypeLookup& types_;
  std::string shard_;
  apiserver::ApiServer* server_ = nullptr;
};

}  // namespace kintsugi::controlplane
