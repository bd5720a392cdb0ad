#pragma once

#include <memory>
#include <string>

#include "controlplane/clusters/cluster_index.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "http/handler.h"

namespace kintsugi::controlplane {

/// Stands before the ApiServer of a shard: refuses what no target may be, gives every path its one
/// canonical form (KK-371, KK-375), answers what is plain text, opens health checks below clusters,
/// and takes identities out of wildcard paths. Threads: its loop.
class ShardHandler final : public http::Handler {
 public:
  /// @param hides_existence  who may know of a cluster comes first: the server answers all of that.
  ShardHandler(http::Handler& server, ClusterIndex& index, IdentityCheck is_identity,
               bool hides_existence)
      : server_(server),
        index_(index),
        is_identity_(std::move(is_identity)),
        hides_existence_(hides_existence) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> begin(http::RequestHead head,
                                                            http::ResponseStream& stream);
  http::Handler& server_;
  ClusterIndex& index_;
  IdentityCheck is_identity_;
  const bool hides_existence_;
};

}  // namespace kintsugi::controlplane
