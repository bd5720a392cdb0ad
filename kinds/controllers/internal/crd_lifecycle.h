#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "apiserver/controllers/controller.h"

namespace kintsugi::kinds {

/// Status and end of CustomResourceDefinitions: names accepted or in conflict, Established,
/// storedVersions, approval of protected groups, and deletion of the instances before the
/// definition goes (AM-380 to AM-389). What is served is the registry's business.
/// Cost: one definition's change looks at the names of its group only.
class CrdLifecycle final : public apiserver::ControllerBase {
 public:
  explicit CrdLifecycle(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;

 private:
  struct Names {
    std::vector<std::string> resources, kinds;  ///< accepted: plural, singular, short; kind, list
  };
  using Group = std::map<std::string, Names, std::less<>>;  // by definition name

  void process(const std::string& key, Finished finished) override;
  void note(std::string_view cluster, std::string_view name, const krm::Json& crd);
  void enqueue_group(const std::string& group_key);
  void clean_up(const apiserver::ObjectKey& key, krm::Json crd, Finished finished);
  /// Brings status up to date in `crd`; false: nothing changed.
  bool settle_names(const apiserver::ObjectKey& key, krm::Json& crd) const;

  std::map<std::string, Group, std::less<>> groups_;  // by "cluster/group"
  std::map<std::string, std::string, std::less<>>
      terminating_;  // "cluster/group/plural" -> packed key
};

}  // namespace kintsugi::kinds
