#pragma once

#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"
#include "controlplane/controllers/workspace_types.h"

namespace kintsugi::controlplane {

/// status of WorkspaceTypes: where their initializers and terminators find their work, on each
/// shard; condition Ready is True when every type that one extends is there.
class WorkspaceTypeController final : public apiserver::ControllerBase {
 public:
  WorkspaceTypeController(const apiserver::ControllerContext& context,
                          const WorkspaceTypeLookup& types, RootView& root);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  [[nodiscard]] krm::Json urls(const apiserver::ObjectKey& type) const;
  const WorkspaceTypeLookup& types_;
  RootView& root_;
};

}  // namespace kintsugi::controlplane
