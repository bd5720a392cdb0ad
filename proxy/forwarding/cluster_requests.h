#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "http/handler.h"
#include "proxy/forwarding/admission.h"
#include "proxy/forwarding/forward.h"
#include "proxy/overlay/overlay.h"
#include "proxy/routing/group_owners.h"
#include "proxy/routing/router.h"
#include "topology/shard_pool.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Requests for one logical cluster, whose caller is known: sent to its shard, answered by the
/// proxy's own API server, or made of both. Threads: its loop.
class ClusterRequests {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;
  struct Params {
    std::shared_ptr<topology::SnapshotView> view;
    topology::ShardPool& pool;
    http::Handler& local;  ///< the proxy's own API server
    Overlay& overlay;
    const Admission& admission;
    ForwardLoop& forward;
    GroupOwners* owners;  ///< null: no group is of mode auto
  };
  explicit ClusterRequests(Params params);

  /// RouteKind::kForwarded.
  [[nodiscard]] Answer forward_it(Request&& request, http::ResponseStream& stream,
                                  const Route& route);
  /// RouteKind::kServed.
  [[nodiscard]] Answer serve(Request&& request, http::ResponseStream& stream, const Route& route);
  /// RouteKind::kOverlaid.
  [[nodiscard]] Answer overlay(Request&& request, http::ResponseStream& stream, const Route& route);
  /// RouteKind::kAskedFirst. @param then  how it goes on when the shard has told its groups.
  [[nodiscard]] Answer ask_first(Request&& request, http::ResponseStream& stream,
                                 const Route& route, Admission::Then then);
  /// RouteKind::kOfOneShard.
  [[nodiscard]] Answer of_one_shard(Request&& request, http::ResponseStream& stream,
                                    const Route& route);
  /// Reports of shards about slices that were answered and not stored, by shard.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& ignored_applies() const noexcept {
    return ignored_applies_;
  }

 private:
  /// A shard's report about a slice of `cluster`; nullptr: it is none.
  [[nodiscard]] Answer shard_apply(Request& request, http::ResponseStream& stream,
                                   std::string_view cluster, std::string_view trail);

  Params params_;
  std::map<std::string, std::uint64_t> ignored_applies_;
};

}  // namespace kintsugi::proxy
