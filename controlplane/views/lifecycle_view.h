#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "apiserver/view.h"
#include "base/strings.h"
#include "controlplane/controllers/lifecycle.h"
#include "controlplane/controllers/workspace_types.h"
#include "controlplane/views/view_resolver.h"
#include "kinds/rbac/rbac.h"

/// The virtual workspaces initializingworkspaces and terminatingworkspaces (T-11,
/// TP-073 to TP-075): where the one behind an initializer or terminator "<type cluster>:<type>"
/// finds logical clusters that wait for it, and works in them.
namespace kintsugi::controlplane {

/// What the views ask; all outlive them. Threads: one loop.
struct LifecycleViewContext {
  const apiserver::Registry& registry;  ///< of the shard
  auth::Authorizer& authorizer;         ///< whether somebody may initialize or terminate
  const kinds::RbacAuthorizer& rbac;    ///< what an owner may do in his cluster
  const WorkspaceTypeLookup& types;
  ClusterIndex& index;
  std::function<const apiserver::ObjectReader&()> reader;
};

/// What is served: of "*" only logicalclusters, to be read, with their status in discovery; of a
/// cluster everything, its LogicalCluster to be read and its status to be written.
class LifecycleRegistry final : public apiserver::Registry {
 public:
  explicit LifecycleRegistry(const apiserver::Registry& clusters);
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view cluster, std::string_view group,
                                            std::string_view resource) const override;
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view cluster) const override;
  [[nodiscard]] std::uint64_t generation(std::string_view cluster) const override;
  [[nodiscard]] bool ready(std::string_view cluster) const override {
    return clusters_.ready(cluster);
  }

 private:
  const apiserver::Registry& clusters_;
  apiserver::ResourcePtr clusters_kind_;  // logicalclusters
};

/// One initializer's or terminator's view. One whose name is none is the system's alone, and empty
/// (KK-349).
/// Who may use it is decided by the verb initialize or terminate on the WorkspaceType, where that
/// is. Of LogicalClusters only those exist that wait for the name in that phase; writes to their
/// status may take the name away and nothing else. Everything else of such a cluster is open to
/// what the type's initializerPermissions (terminatorPermissions) say, as oneself; without them as
/// the user in spec.createdBy, with his rights in this cluster: as his name and nothing that the
/// system gives meaning to (KK-352). Then also while the cluster is closed to him.
class LifecycleView final : public apiserver::View,
                            public auth::Authorizer,
                            public std::enable_shared_from_this<LifecycleView> {
 public:
  /// @param type_cluster  "": the name is none, `type_name` has it.
  LifecycleView(const LifecycleViewContext& context, const LifecycleRegistry& registry,
                Lifecycle lifecycle, std::string type_cluster, std::string type_name);

  [[nodiscard]] const apiserver::Registry& registry() const override { return registry_; }
  [[nodiscard]] auth::Authorizer& authorizer() override { return *this; }
  [[nodiscard]] std::string_view rights_cluster() const override { return type_cluster_; }
  [[nodiscard]] krm::Selector visible(std::string_view cluster,
                                      const apiserver::ResourceDef& def) const override;
  /// What waits to be terminated is known since it was made (KK-109).
  [[nodiscard]] krm::Selector known(std::string_view cluster,
                                    const apiserver::ResourceDef& def) const override;
  [[nodiscard]] Expected<void> prepare(const apiserver::WriteContext& context,
                                       const apiserver::ResourceDef& def, krm::Json& object,
                                       const krm::Json* old) const override;
  /// What is said of the cluster or the type; what he may not who made it is a Status (KK-351).
  [[nodiscard]] bool is_plain(const Error& error) const override;
  [[nodiscard]] std::optional<auth::UserInfo> acts_as(
      const auth::Attributes& attributes) const override;

  /// @error (in done) kForbidden the cluster does not wait for this name, the permissions do not
  ///        say so, or createdBy has no name; kUnavailable the type is not known here; kInternal
  ///        the cluster has no createdBy.
  void authorize(const auth::Attributes& attributes, Done done) override;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  struct Content;
  [[nodiscard]] bool is_content(const auth::Attributes& attributes) const;
  [[nodiscard]] Expected<Content> content(const auth::Attributes& attributes) const;
  [[nodiscard]] Expected<auth::Decision> decide(const auth::Attributes& attributes) const;

  const LifecycleViewContext& context_;
  const LifecycleRegistry& registry_;
  Lifecycle lifecycle_;
  std::string type_cluster_, type_name_, name_;
  krm::Selector waiting_, known_;
};

/// The views of a loop, made as they are asked for.
class LifecycleViews {
 public:
  explicit LifecycleViews(LifecycleViewContext context);
  /// Adds both virtual workspaces. This object must outlive the resolver's use.
  void add_to(ViewResolver& resolver);
  /// Open watches end soon after a cluster stops waiting. The server must outlive this or stop().
  void start(apiserver::ApiServer& server);
  void stop() noexcept { subscription_.reset(); }

 private:
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      Lifecycle lifecycle, const ViewRequest& request);
  [[nodiscard]] std::shared_ptr<LifecycleView> view(Lifecycle lifecycle,
                                                    std::string_view type_cluster,
                                                    std::string_view type_name);

  LifecycleViewContext context_;
  LifecycleRegistry registry_;
  StringMap<std::shared_ptr<LifecycleView>> views_;  // by "<virtual workspace>/<name>"
  std::shared_ptr<void> subscription_;
};

}  // namespace kintsugi::controlplane
