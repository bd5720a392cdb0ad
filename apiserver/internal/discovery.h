#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::apiserver::internal {

/// Discovery documents of logical clusters (AM-102 to AM-116), made again only when
/// Registry::generation changes. Threads: one loop. Limit: kMaxClusters documents are kept, then
/// all are dropped.
class Discovery {
 public:
  static constexpr std::size_t kMaxClusters = 256;

  explicit Discovery(const Registry& registry) : registry_(registry) {}

  /// APIGroupList. All documents are JSON text.
  [[nodiscard]] std::string groups(std::string_view cluster);
  /// APIGroup; "" when the group is not served.
  [[nodiscard]] std::string group(std::string_view cluster, std::string_view name);
  /// APIResourceList; "" when nothing of that group version is served.
  [[nodiscard]] std::string resources(std::string_view cluster, std::string_view group,
                                      std::string_view version);
  /// True when the core group has anything.
  [[nodiscard]] bool has_core(std::string_view cluster);
  [[nodiscard]] std::vector<std::string> paths(std::string_view cluster);

  /// APIGroupDiscoveryList of /api (`core`) or /apis, and its tag.
  struct Document {
    std::string json;
    std::string etag;  ///< upper-case hex
  };
  [[nodiscard]] std::shared_ptr<const Document> aggregated(std::string_view cluster, bool core);

 private:
  struct Group {
    std::string name;
    std::vector<std::string> versions;  ///< in order of preference
    std::vector<ResourcePtr> resources;
  };
  struct Cluster {
    std::uint64_t generation = 0;
    std::vector<Group> groups;                     ///< core first
    std::shared_ptr<const Document> documents[2];  ///< /apis, /api
  };
  Cluster& cluster(std::string_view name);
  [[nodiscard]] static const Group* find(const Cluster& cluster, std::string_view name);
  [[nodiscard]] static krm::Json group_json(const Group& group);
  [[nodiscard]] static krm::Json aggregated_group(const Group& group);

  const Registry& registry_;
  StringMap<std::unique_ptr<Cluster>> clusters_;
};

}  // namespace kintsugi::apiserver::internal
