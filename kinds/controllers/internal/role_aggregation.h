#pragma once

#include <map>
#include <set>
#include <string>

#include "apiserver/controllers/controller.h"

namespace kintsugi::kinds {

/// ClusterRoles with an aggregationRule hold the union of the rules of the ClusterRoles that it
/// selects; rules written by hand are replaced (AM-448).
class RoleAggregation final : public apiserver::ControllerBase {
 public:
  explicit RoleAggregation(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  void note(std::string_view cluster, std::string_view name, const krm::Json* role);

  // Names of aggregating roles by cluster.
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> aggregating_;
};

/// A metav1.LabelSelector against labels; a malformed selector selects nothing.
[[nodiscard]] bool label_selector_matches(const krm::Json& selector, const krm::Json* labels);

}  // namespace kintsugi::kinds
