#pragma once

#include <memory>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "kinds/controllers/internal/namespace_defaults.h"
#include "kinds/controllers/internal/token_secrets.h"

namespace kintsugi::kinds {

/// Which controllers a server runs. They write, so one loop of one process runs them per store.
struct ControllerParams {
  NamespaceDefaultsParams namespace_defaults;
  TokenSecretsParams token_secrets;
  std::int64_t event_life = 3600;  ///< [s]
  bool namespaces = true;          ///< lifecycle and defaults
  bool definitions = true;         ///< CustomResourceDefinitions
  bool events = true;
  bool roles = true;
  bool quotas = true;
  bool policies = true;  ///< status of ValidatingAdmissionPolicies
};

/// A server's controllers as one.
class ControllerSet {
 public:
  ControllerSet(const apiserver::ControllerContext& context, const ControllerParams& params);
  void start();
  /// See Controller::add_cluster; also when the definitions of a cluster have become known.
  void add_cluster(std::string_view cluster);
  void remove_cluster(std::string_view cluster);
  /// Keys that wait or run now in all of them.
  [[nodiscard]] std::size_t busy() const;

 private:
  std::vector<std::unique_ptr<apiserver::Controller>> members_;
};

}  // namespace kintsugi::kinds
