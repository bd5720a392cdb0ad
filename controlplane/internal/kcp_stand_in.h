#pragma once

#include <memory>

#include "auth/authorizer.h"
#include "http/handler.h"

/// What a shard of kcp does differently towards a proxy and an embedded shard does not: for tests
/// of the proxy alone (ShardServerParams::as_kcp).
namespace kintsugi::controlplane {

/// All logical clusters at once are for system:masters alone; shards among themselves are what
/// kcp's cache server is.
class StandInAuthorizer final : public auth::Authorizer {
 public:
  explicit StandInAuthorizer(auth::Authorizer& inner) : inner_(inner) {}
  void authorize(const auth::Attributes& attributes, Done done) override;

 private:
  auth::Authorizer& inner_;
};

/// Virtual workspaces have a server of their own, and what kcp's own exports bring is not found in
/// all logical clusters without the identity behind the resource (FP-094); as metadata it is.
/// Threads: its loop.
class StandInHandler final : public http::Handler {
 public:
  /// @param services  the server of virtual workspaces, else the one of everything else
  StandInHandler(http::Handler& inner, bool services) : inner_(inner), services_(services) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

 private:
  http::Handler& inner_;
  const bool services_;
};

}  // namespace kintsugi::controlplane
