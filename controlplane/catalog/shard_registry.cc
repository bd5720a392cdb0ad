#include "controlplane/catalog/shard_registry.h"

#include <algorithm>

namespace kintsugi::controlplane {

apiserver::ResourcePtr ShardRegistry::find(std::string_view cluster, std::string_view group,
                                           std::string_view resource) const {
  const std::size_t colon = resource.find(':');
  if (colon == std::string_view::npos) {
    apiserver::ResourcePtr own = own_.find(cluster, group, resource);
    return own != nullptr ? own : as_shown(cluster, bound_.find(cluster, group, resource));
  }
  const std::string_view plural = resource.substr(0, colon);
  const std::string_view identity = resource.substr(colon + 1);
  if (identity.empty()) {
    return nullptr;
  }
  return cluster == "*" ? bound_.find_anywhere(group, plural, identity)
                        : bound_.find(cluster, group, plural, identity);
}

std::vector<apiserver::ResourcePtr> ShardRegistry::all(std::string_view cluster) const {
  std::vector<apiserver::ResourcePtr> out = own_.all(cluster);
  std::vector<apiserver::ResourcePtr> bound;
  bound_.visit(cluster, [&](const apiserver::ResourcePtr& def, std::string_view) {
    if (own_.find(cluster, def->group, def->plural) == nullptr) {
      bound.push_back(as_shown(cluster, def));
    }
  });
  if (bound.empty()) {
    return out;
  }
  std::sort(bound.begin(), bound.end(),
            [](const apiserver::ResourcePtr& a, const apiserver::ResourcePtr& b) {
              return a->plural < b->plural;
            });
  out.insert(out.end(), bound.begin(), bound.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const apiserver::ResourcePtr& a, const apiserver::ResourcePtr& b) {
                     return a->group < b->group;
                   });
  return out;
}

std::uint64_t ShardRegistry::generation(std::string_view cluster) const {
  const std::uint64_t virtuals = virtuals_ == nullptr ? 0 : virtuals_->generation();
  return own_.generation(cluster) + bound_.generation(cluster) + virtuals;  // all only grow
}

apiserver::ResourcePtr ShardRegistry::as_shown(std::string_view cluster,
                                               apiserver::ResourcePtr def) const {
  ExportRef ref;
  if (def == nullptr || virtuals_ == nullptr || virtuals_->empty() ||
      virtuals_->bound(cluster, def->group, def->plural, ref) == nullptr) {
    return def;
  }
  return virtuals_->shown(def);
}

}  // namespace kintsugi::controlplane
