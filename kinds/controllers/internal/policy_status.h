#pragma once

#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"

namespace kintsugi::kinds {

/// Fills status.typeChecking and status.observedGeneration of ValidatingAdmissionPolicies, once per
/// generation.
class PolicyStatus final : public apiserver::ControllerBase {
 public:
  explicit PolicyStatus(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void note(std::string_view cluster, const krm::Json& policy);
  void process(const std::string& key, Finished finished) override;
};

}  // namespace kintsugi::kinds
