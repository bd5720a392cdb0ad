#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "auth/bearer.h"
#include "auth/impersonation_gate.h"
#include "http/handler.h"
#include "krm/request_info.h"
#include "krm/request_target.h"
#include "proxy/routing/access_note.h"
#include "topology/resolver.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// What is read of a target beyond the RequestTarget, each when it is first asked for, and kept.
/// @param text,target  always the same ones.
class TargetReadings {
 public:
  /// What is asked for, below the cluster that the target names.
  [[nodiscard]] const std::shared_ptr<const krm::RequestInfo>& info(
      std::string_view method, std::string_view text, const krm::RequestTarget& target);
  /// Where `target.cluster` leads: looked up once in a snapshot. Another one may lead elsewhere.
  [[nodiscard]] const topology::Resolution& found(const topology::Snapshot& snapshot,
                                                  const krm::RequestTarget& target);

 private:
  std::shared_ptr<const krm::RequestInfo> info_;
  const topology::Snapshot* looked_in_ = nullptr;  // only compared
  std::uint64_t generation_ = 0;                   // of that
  topology::Resolution found_;
};

/// A target that a request goes on with, read.
struct LedTarget {
  std::string text;
  krm::RequestTarget target;  ///< of `text`
  TargetReadings readings;
};
/// @param plain  see has_plain_servers()
[[nodiscard]] LedTarget read_target(std::string_view method, std::string text, bool plain);

/// A request on its way through the proxy, its target understood once (SE-020). What stands beside
/// the head is made here and nowhere else: nothing that a client sends can put it there. Movable
/// like the head, and handed inward by reference, without an allocation of its own. Threads: its
/// loop.
struct Request {
  http::RequestHead head;
  krm::RequestTarget target;  ///< of head.target, always
  TargetReadings readings;    ///< of both
  Request() = default;
  explicit Request(http::RequestHead&& from) : head(std::move(from)) {}
  /// Another target is asked for from now on.
  void lead_to(LedTarget&& led);
  /// @{ As of TargetReadings.
  [[nodiscard]] const std::shared_ptr<const krm::RequestInfo>& info() {
    return readings.info(head.method, head.target, target);
  }
  [[nodiscard]] const topology::Resolution& found(const topology::Snapshot& snapshot) {
    return readings.found(snapshot, target);
  }
  /// @}
  /// The token in its Authorization header, also once that header is gone; null: there is none.
  [[nodiscard]] const auth::BearerPtr& bearer() {
    if (token == nullptr) {
      token = auth::bearer_of(head.headers);
    }
    return token;
  }
  auth::BearerPtr token;  ///< null: nobody has asked for it yet
  /// What the path was before an in-cluster client's cluster was put in front; "": nothing was.
  std::string sent;
  /// Impersonate-* was judged, and may be asked for there. nullopt: nobody has judged it yet.
  std::optional<auth::ImpersonationPlace> judged;
  /// For the access log; null: there is none.
  std::shared_ptr<AccessNote> note;
};

/// Whether the servers behind are plain ones: what stands behind the subresource `proxy` is theirs
/// alone then (SE-026).
[[nodiscard]] bool has_plain_servers(const topology::Snapshot& facts) noexcept;

/// The one reading: the token that a browser has sent as a subprotocol becomes Authorization, the
/// target is parsed, and the cluster of an in-cluster client's token is put in front of its path
/// (in_cluster.h). @param plain  see has_plain_servers()
[[nodiscard]] Request understand(http::RequestHead&& head, bool plain);

/// The logical cluster that a ServiceAccount token says it is of; "" without such a claim, or one
/// that is no name. Nothing is verified here; a shard does that.
[[nodiscard]] std::string_view token_cluster(const auth::Bearer& token);

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
