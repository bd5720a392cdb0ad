#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controlplane/clusters/cluster_index.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "http/handler.h"
#include "krm/request_target.h"

namespace kintsugi::controlplane {

/// Stands before the ApiServer of a shard: refuses what no target may be, gives every path its one
/// canonical form (KK-371, KK-375), answers what is plain text, opens health checks below clusters,
/// and takes identities out of wildcard paths. Threads: its loop.
class ShardHandler final : public http::Handler {
 public:
  /// @param hides_existence  who may know of a cluster comes first: the server answers all of that.
  /// @param audit  ServerParams::audit, for what is answered here (SE-007). Empty: no audit log.
  ShardHandler(http::Handler& server, ClusterIndex& index, IdentityCheck is_identity,
               bool hides_existence, std::function<void(std::string line)> audit = {})
      : server_(server),
        index_(index),
        is_identity_(std::move(is_identity)),
        audit_(std::move(audit)),
        hides_existence_(hides_existence) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> begin(http::RequestHead head,
                                                            http::ResponseStream& stream);
  /// A line about a request that is answered here, with that status.
  void note(const http::RequestHead& head, const krm::RequestTarget& target,
            const http::ResponseStream& stream, int status) const;

  http::Handler& server_;
  ClusterIndex& index_;
  IdentityCheck is_identity_;
  std::function<void(std::string line)> audit_;
  const bool hides_existence_;
};

}  // namespace kintsugi::controlplane
