#include "controlplane/quotas/cluster_loads.h"

#include <string>
#include <utility>

#include "controlplane/quotas/workspace_books.h"

namespace kintsugi::controlplane {

using krm::Json;

Json cluster_loads(const ClusterIndex& index, const store::Books* books,
                   const apiserver::WatchCounts& watches) {
  Json items = Json::array();
  for (const std::string& name : index.names()) {
    const ClusterInfo* info = index.find(name);
    if (info == nullptr) {
      continue;
    }
    Json item = Json::object({{"cluster", name}, {"path", info->path}, {"phase", info->phase}});
    item["watches"] = static_cast<std::int64_t>(watches.of(name));
    if (books != nullptr) {
      const store::Sums sums = books->sums(name);
      item["objects"] = sums[column_of(Quota::kObjects)];
      item["bytes"] = sums[column_of(Quota::kBytes)];
    }
    items.push_back(std::move(item));
  }
  return Json::object({{"items", std::move(items)}});
}

}  // namespace kintsugi::controlplane
