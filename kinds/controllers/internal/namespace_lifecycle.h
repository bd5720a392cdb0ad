#pragma once

#include <memory>
#include <set>
#include <string>

#include "apiserver/controllers/controller.h"

namespace kintsugi::kinds {

/// Empties namespaces that are being deleted, keeps their conditions, and takes the finalizer
/// `kubernetes` from spec.finalizers when nothing is left (AM-335 to AM-341). Works over
/// whatever the registry serves, needs no conversion, and goes on after a restart.
class NamespaceLifecycle final : public apiserver::ControllerBase {
 public:
  explicit NamespaceLifecycle(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;

 private:
  struct Pass;
  void process(const std::string& key, Finished finished) override;
  void delete_content(const std::shared_ptr<Pass>& pass);
  void settle(const std::shared_ptr<Pass>& pass);

  std::set<std::string, std::less<>> terminating_;  // packed keys
};

}  // namespace kintsugi::kinds
