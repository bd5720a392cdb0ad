#pragma once

#include "apiserver/open_watches.h"
#include "controlplane/clusters/cluster_index.h"
#include "krm/json.h"
#include "store/books.h"

namespace kintsugi::controlplane {

/// What the logical clusters of a shard have, for who spreads them over shards (GR-605): {items:
/// [{cluster, path, phase, watches, objects, bytes}]}. @param books  by workspace_books(); null:
/// nothing is known of objects and bytes, which are left out
[[nodiscard]] krm::Json cluster_loads(const ClusterIndex& index, const store::Books* books,
                                      const apiserver::WatchCounts& watches);

}  // namespace kintsugi::controlplane
