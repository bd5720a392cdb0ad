#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/controllers/controller.h"

namespace kintsugi::controlplane {

/// One object that a shard starts with.
struct BootstrapObject {
  apiserver::ObjectKey key;
  krm::Json object;
  /// Member that a start brings back to what it is in `object`, while what is stored has annotation
  /// krm::kAutoUpdateAnnotation "true". "": none.
  std::string_view restored = {};
};

/// What kcp puts into `root`: its LogicalCluster first, then the exports of the system APIs and the
/// workspace types root, universal, organization, team and home.
[[nodiscard]] std::vector<BootstrapObject> bootstrap_objects(const std::string& shard_name);

/// The bootstrap policy, in the shard's own cluster (KK-314): to be seen, and to be changed by the
/// system. It holds as built in where it is not stored.
[[nodiscard]] std::vector<BootstrapObject> bootstrap_policy();

/// Makes those that are missing, in order, at every start; changes of one that is there its member
/// `restored` alone.
class Bootstrap final : public apiserver::ControllerBase {
 public:
  /// @param done runs once, when all are there.
  Bootstrap(const apiserver::ControllerContext& context, std::vector<BootstrapObject> objects,
            std::function<void()> done);
  void start() override;
  void add_cluster(std::string_view) override {}
  [[nodiscard]] bool complete() const noexcept { return next_ == objects_.size(); }

 private:
  void process(const std::string& key, Finished finished) override;
  void wrote(const std::string& key, const Expected<krm::Json>& result, const Finished& finished);

  std::vector<BootstrapObject> objects_;
  std::size_t next_ = 0;
  std::function<void()> done_;
};

}  // namespace kintsugi::controlplane
