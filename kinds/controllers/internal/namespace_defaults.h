#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"

namespace kintsugi::kinds {

struct NamespaceDefaultsParams {
  /// Text of key ca.crt of ConfigMap kube-root-ca.crt; "" = no such ConfigMaps (AM-331).
  std::string root_ca_pem;
  bool service_account = true;  ///< ServiceAccount `default` (AM-330)
  bool namespaces = true;       ///< `default` and `kube-system` in every logical cluster (AM-333)
  /// False while a logical cluster is being emptied or is gone: nothing is made in it. Empty:
  /// always true.
  std::function<bool(std::string_view cluster)> wanted;
};

/// What every namespace and every logical cluster has from the start; made again when it is deleted
/// or, for the CA, changed.
class NamespaceDefaults final : public apiserver::ControllerBase {
 public:
  NamespaceDefaults(const apiserver::ControllerContext& context, NamespaceDefaultsParams params);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  void ensure_namespace(const apiserver::ObjectKey& key, Finished finished);
  void ensure_account(const apiserver::ObjectKey& key, Finished finished);
  void ensure_ca(const apiserver::ObjectKey& key, Finished finished);
  void enqueue_content(std::string_view cluster, std::string_view ns);
  [[nodiscard]] bool takes_content(const apiserver::ObjectKey& key) const;

  NamespaceDefaultsParams params_;
};

}  // namespace kintsugi::kinds
