#pragma once

#include <memory>

#include "auth/authorizer.h"
#include "http/handler.h"
#include "proxy/routing/request.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// What strangers are told of logical clusters, exports and Partitions: of those that exist the
/// same as of none. Source: SE-034, SE-160 to SE-162.
///
///   who asks                        what is answered
///   without credentials             401, before anything is looked up
///   with a certificate or a token   401, the same
///     that does not hold
///   with a token that only a shard  its shard's answer; 401 where there is no shard to ask
///     can judge
///   known, without `access`         E1
///   known, with `access`            what there is to answer
///
/// Nobody of the first two kinds waits for the topology. Stands between the AuditGate and the
/// ProxyHandler. Threads: its loop. Cost of what is allowed: an allocation and copies of target,
/// Accept and User-Agent.
class ExistenceGate final : public RoutedHandler {
 public:
  /// @param authorizer  is asked whether a caller who was refused may enter the cluster at all.
  /// @param inner  answers; both must outlive it.
  ExistenceGate(std::shared_ptr<topology::SnapshotView> view, auth::Authorizer& authorizer,
                RoutedHandler& inner);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  class Guarded;
  std::shared_ptr<topology::SnapshotView> view_;
  auth::Authorizer& authorizer_;
  RoutedHandler& inner_;
};

}  // namespace kintsugi::proxy
