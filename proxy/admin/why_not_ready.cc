#include "proxy/admin/why_not_ready.h"

#include <string_view>

namespace kintsugi::proxy {

std::string why_not_ready(const topology::Feed& feed) {
  std::string text;
  const auto add = [&text](std::string_view cause) {
    text.append(text.empty() ? "" : "; ").append(cause);
  };
  if (!feed.index().shards_listed()) {
    add("the Shards are not listed yet");
  }
  for (const auto& refusal : feed.refusals()) {
    add(refusal.text());
  }
  for (const auto& shard : feed.index().shards()) {
    for (const auto resource :
         {topology::Resource::kWorkspaces, topology::Resource::kLogicalClusters}) {
      if (!shard->is_synced(resource)) {
        add(shard->spec.name + ": " + std::string(topology::resource_name(resource)) +
            " are not listed yet" + (shard->cause.empty() ? "" : ": " + shard->cause));
      }
    }
  }
  return text;
}

}  // namespace kintsugi::proxy
