#pragma once

#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"
#include "controlplane/clusters/root_view.h"

namespace kintsugi::controlplane {

/// status of WorkspaceTypes: where their initializers and terminators find their work, on each
/// shard. What a type extends is looked at when it is used (KK-055).
class WorkspaceTypeController final : public apiserver::ControllerBase {
 public:
  WorkspaceTypeController(const apiserver::ControllerContext& context, RootView& root);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  [[nodiscard]] krm::Json urls(const apiserver::ObjectKey& type) const;
  RootView& root_;
};

}  // namespace kintsugi::controlplane
