#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "http/handler.h"
#include "proxy/forwarding/admission.h"
#include "proxy/forwarding/forward.h"
#include "proxy/routing/router.h"
#include "topology/shard_pool.h"

namespace kintsugi::proxy {

/// Requests that go elsewhere than to a shard's logical clusters: to virtual workspaces, to what is
/// behind mounts, and to backends of the mapping file. Threads: its loop.
class BackendRequests {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;
  struct Params {
    topology::ShardPool& pool;
    const Admission& admission;
    ForwardLoop& forward;
  };
  explicit BackendRequests(Params params) : params_(params) {}

  /// RouteKind::kMapped; the caller is not identified yet, since the entry says by which headers
  /// its backend knows one.
  [[nodiscard]] Answer mapped(Request&& request, http::ResponseStream& stream, const Route& route);
  /// RouteKind::kMounted; the same, since more may be asked for here than where it leads.
  /// @param followed  counts requests that have gone on
  [[nodiscard]] Answer mounted(Request&& request, http::ResponseStream& stream, const Route& route,
                               std::uint64_t& followed);
  /// RouteKind::kService and kServiceAny.
  [[nodiscard]] Answer service(Request&& request, http::ResponseStream& stream, Route&& route);

 private:
  /// The next in turn of shards that all would do; those that failed lately are left out.
  [[nodiscard]] topology::ShardId next_of(const std::vector<topology::ShardId>& shards);

  Params params_;
  std::size_t turn_ = 0;
  std::map<topology::ShardId, TimePoint> paused_;  ///< until then next_of leaves them out
};

}  // namespace kintsugi::proxy
