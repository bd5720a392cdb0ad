#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "auth/user.h"
#include "http/handler.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// A shard's report that its URL belongs into a slice, which kcp's shards send on each consumer.
struct ShardApply {
  std::string shard, slice;
};

/// Recognises such a report (T-12, T-12): a server-side apply to the
/// status of a slice whose field manager is a registered Shard, by a caller of group
/// system:kcp:external-logical-cluster-admin who impersonates nobody. The proxy knows consumers
/// from its own view: the report is answered with the slice as it is.
/// @param trail what follows the cluster, with the query.
[[nodiscard]] std::optional<ShardApply> shard_apply(const topology::Snapshot& facts,
                                                    const http::RequestHead& head,
                                                    std::string_view trail,
                                                    const auth::UserInfo& user);

}  // namespace kintsugi::proxy
