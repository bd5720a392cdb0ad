#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "auth/authenticator.h"
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
///   with a token that only a shard  its shard's answer; what the proxy would say itself it says
///     can judge                     when that shard knows the token, else 401
///   known, without `access`         E1
///   known, with `access`            what there is to answer
///
/// Nobody of the first two kinds waits for the topology. Stands between the AuditGate and the
/// ProxyHandler. Threads: its loop. Cost of what is allowed: an allocation and copies of target,
/// Accept and User-Agent.
class ExistenceGate final : public RoutedHandler {
 public:
  /// @param authorizer  is asked whether a caller who was refused may enter the cluster at all.
  /// @param tokens  judges tokens that only a shard can judge; sees nothing else of a request.
  /// @param inner  answers; all must outlive it.
  ExistenceGate(std::shared_ptr<topology::SnapshotView> view, auth::Authorizer& authorizer,
                auth::Authenticator& tokens, RoutedHandler& inner);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  class Guarded;
  using User = std::optional<auth::UserInfo>;
  using Then = std::function<std::unique_ptr<http::RequestHandler>(Request, auth::UserInfo)>;
  /// Whose a token is; nullopt: nobody's, or it cannot be known now.
  void judge(const auth::BearerPtr& token, std::function<void(User)> done);
  /// Goes on when a shard knows the token; else 401.
  [[nodiscard]] std::unique_ptr<http::RequestHandler> when_known(Request&& request,
                                                                 http::ResponseStream& stream,
                                                                 Then then);

  std::shared_ptr<topology::SnapshotView> view_;
  auth::Authorizer& authorizer_;
  auth::Authenticator& tokens_;
  RoutedHandler& inner_;
};

}  // namespace kintsugi::proxy
