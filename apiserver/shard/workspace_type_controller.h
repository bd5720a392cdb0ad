#pragma once

#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"
#include "apiserver/shard/workspace_types.h"

namespace kintsugi::apiserver {

/// Condition Ready of WorkspaceTypes: True when every type that one extends is there.
class WorkspaceTypeController final : public ControllerBase {
 public:
  WorkspaceTypeController(const ControllerContext& context, const WorkspaceTypeLookup& types);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  const WorkspaceTypeLookup& types_;
};

}  // namespace kintsugi::apiserver
