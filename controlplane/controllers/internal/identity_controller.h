#pragma once

#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"

namespace kintsugi::controlplane {

/// Gives each APIExport, or each ClusterCachedResource, its identity (AM-494 to AM-496, KK-200): a
/// Secret of its name in namespace kcp-system with `key`, unless spec.identity.secretRef names
/// another; status.identityHash is the hex SHA-256 of the key and never changes by itself;
/// condition IdentityValid tells whether the Secret still says so.
class IdentityController final : public apiserver::ControllerBase {
 public:
  /// @param group, resource  of the objects that have identities.
  IdentityController(const apiserver::ControllerContext& context, std::string_view group,
                     std::string_view resource);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  [[nodiscard]] std::string queue_key(std::string_view cluster, std::string_view name) const;
  void process(const std::string& key, Finished finished) override;
  void make_secret(const apiserver::ObjectKey& key, krm::Json api_export, Finished finished);
  void name_secret(const apiserver::ObjectKey& key, krm::Json api_export, Finished finished);
  void verify(const apiserver::ObjectKey& key, krm::Json api_export, Finished finished);

  const std::string group_, resource_;
};

}  // namespace kintsugi::controlplane
