#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "base/strings.h"
#include "controlplane/catalog/bound_kinds.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/views/view_resolver.h"

namespace kintsugi::controlplane {

/// The virtual workspace apiresourceschema (KK-354, TP-077): the APIResourceSchemas that a logical
/// cluster of this shard has bound, as they were when they were bound, to be read by whoever may
/// get APIBindings there: "/services/apiresourceschema/<cluster>/clusters/<any>". What stands
/// behind clusters/ does not matter. Watches end when the cluster binds something else. Memory: one
/// view for each cluster that somebody looks at. Threads: one loop.
class SchemaViews {
 public:
  /// What the views ask; all outlive them.
  struct Sources {
    const BoundKinds& bound;
    ClusterIndex& clusters;
    auth::Authorizer& authorizer;
  };
  explicit SchemaViews(Sources sources) : sources_(sources) {}

  /// After the bound kinds; the server must outlive this or stop().
  void start(apiserver::ApiServer& server);
  void stop() noexcept { subscription_.reset(); }
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      const ViewRequest& request);

 private:
  class One;
  void bindings_changed(std::string_view cluster);

  Sources sources_;
  apiserver::ApiServer* server_ = nullptr;
  StringMap<std::weak_ptr<One>> views_;  // by cluster
  std::shared_ptr<void> subscription_;
};

}  // namespace kintsugi::controlplane
