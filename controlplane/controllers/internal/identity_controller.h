#pragma once

#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"

namespace kintsugi::controlplane {

/// Gives each APIExport its identity (AM-494 to AM-496): a Secret of its
/// name in namespace kcp-system with `key`, unless spec.identity.secretRef names another;
/// status.identityHash is the hex SHA-256 of the key and never changes by itself; condition
/// IdentityValid tells whether the Secret still says so.
class IdentityController final : public apiserver::ControllerBase {
 public:
  explicit IdentityController(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  void make_secret(const apiserver::ObjectKey& key, krm::Json api_export, Finished finished);
  void name_secret(const apiserver::ObjectKey& key, krm::Json api_export, Finished finished);
  void verify(const apiserver::ObjectKey& key, krm::Json api_export, Finished finished);
};

}  // namespace kintsugi::controlplane
