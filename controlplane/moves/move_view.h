#pragma once

#include <memory>
#include <optional>

#include "apiserver/server.h"
#include "controlplane/moves/move_steps.h"
#include "controlplane/views/view_resolver.h"

namespace kintsugi::controlplane {

/// Where shards ask each other for the steps of a move: POST of logicalclusterdumps below
/// /services/moves/<cluster>/clusters/<cluster>, by the certificate of a shard alone (KK-212).
/// Threads: one loop.
class MoveView {
 public:
  explicit MoveView(MoveSteps& steps);
  ~MoveView();
  MoveView(const MoveView&) = delete;
  MoveView& operator=(const MoveView&) = delete;
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      const ViewRequest& request);

 private:
  class One;
  std::shared_ptr<One> view_;
};

}  // namespace kintsugi::controlplane
