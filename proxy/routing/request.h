#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "auth/impersonation_gate.h"
#include "http/handler.h"
#include "krm/request_target.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// A request on its way through the proxy, its target understood once (SE-020). What stands beside
/// the head is made here and nowhere else: nothing that a client sends can put it there. Movable
/// like the head, without an allocation of its own. Threads: its loop.
struct Request {
  http::RequestHead head;
  krm::RequestTarget target;  ///< of head.target, always
  /// Another target is asked for from now on. @param plain  as of understand()
  void lead_to(std::string text, bool plain);
  /// What is asked for, below the cluster that the target names: read when first asked for.
  [[nodiscard]] const std::shared_ptr<const krm::RequestInfo>& info();
  /// What the path was before an in-cluster client's cluster was put in front; "": nothing was.
  std::string sent;
  /// Impersonate-* was judged, and may be asked for there. nullopt: nobody has judged it yet.
  std::optional<auth::ImpersonationPlace> judged;

 private:
  std::shared_ptr<const krm::RequestInfo> info_;
};

/// Whether the servers behind are plain ones: what stands behind the subresource `proxy` is theirs
/// alone then (SE-026).
[[nodiscard]] bool has_plain_servers(const topology::Snapshot& facts) noexcept;

/// The one reading: the token that a browser has sent as a subprotocol becomes Authorization, the
/// target is parsed, and the cluster of an in-cluster client's token is put in front of its path
/// (in_cluster.h). @param plain  see has_plain_servers()
[[nodiscard]] Request understand(http::RequestHead head, bool plain);

/// Answers requests that are understood: gates, and what is behind them. One instance per loop.
class RoutedHandler {
 public:
  virtual ~RoutedHandler() = default;
  /// As http::Handler::on_request().
  [[nodiscard]] virtual std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept = 0;
};

/// Where requests come in: the outermost of the proxy's handlers, which understands each once.
class Entrance final : public http::Handler {
 public:
  /// @param inner  must outlive it.
  Entrance(std::shared_ptr<topology::SnapshotView> view, RoutedHandler& inner)
      : view_(std::move(view)), inner_(inner) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

 private:
  std::shared_ptr<topology::SnapshotView> view_;
  RoutedHandler& inner_;
};

}  // namespace kintsugi::proxy
