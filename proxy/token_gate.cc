#include "proxy/token_gate.h"

#include <optional>
#include <string>
#include <utility>

#include "auth/web_socket_token.h"
#include "base/strings.h"
#include "proxy/identity.h"
#include "proxy/in_cluster.h"
#include "proxy/pass_through.h"
#include "proxy/path.h"
#include "proxy/route_table.h"
#include "proxy/token_review.h"
#include "proxy/waiting_request.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using Authenticated = auth::RequestAuthenticator::Authenticated;

bool is_probe(std::string_view target) {
  return target.starts_with("/livez") || target.starts_with("/readyz");
}

bool may_have_token(const http::RequestHead& head) {
  return head.headers.contains("authorization") || head.headers.contains("sec-websocket-protocol");
}

/// A request whose identity is its own: the handler behind it sees another peer.
class KnownRequest final : public PassThrough {
 public:
  KnownRequest(http::Handler& inner, http::RequestHead head, http::ResponseStream& stream,
               std::shared_ptr<const ConnectionIdentity> identity)
      : PassThrough(stream) {
    const http::PeerInfo& peer = stream.peer();
    peer_.address = peer.address;
    peer_.port = peer.port;
    peer_.tls = peer.tls;
    peer_.identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(identity));
    begin(inner, std::move(head));
  }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return peer_; }

 private:
  http::PeerInfo peer_;
};

/// What became of the credentials, as the handler reads it. nullptr: the connection's own identity
/// stays.
std::shared_ptr<const ConnectionIdentity> identity_from(const Expected<Authenticated>& result) {
  auto identity = std::make_shared<ConnectionIdentity>();
  if (!result) {
    if (result.error().code() != Errc::kUnauthorized) {
      identity->refusal = std::make_shared<const Error>(result.error().clone());
    }
    return identity;
  }
  if (!result->user) {
    return nullptr;
  }
  identity->valid = true;
  if (auth::stamp_identity(identity->stamp, *result->user, {})) {
    identity->user = result->user;
  }
  return identity;
}

/// The logical cluster that a request is for; "" for none, or one that is not known.
std::string cluster_of(const topology::Snapshot& facts, std::string_view target) {
  const auto segment = cluster_of_path(target.substr(0, target.find('?')));
  const auto path = segment ? percent_decode(*segment) : std::nullopt;
  if (!path || *path == "*") {
    return {};
  }
  const topology::Resolution found = topology::resolve(facts, *path);
  return found.resolved() ? std::string(found.cluster) : std::string();
}

}  // namespace

TokenGate::TokenGate(std::shared_ptr<topology::SnapshotView> view, http::Handler& inner)
    : view_(std::move(view)), inner_(inner) {}

bool TokenGate::concerns(const http::RequestHead& head, const http::PeerInfo& peer) const {
  if (methods_.authenticator == nullptr || is_probe(head.target)) {
    return false;
  }
  const ConnectionIdentity* identity = identity_of(peer);
  if (identity == nullptr) {
    return methods_.tokens && (methods_.must_have || may_have_token(head));
  }
  if (methods_.request_header && identity->from_request_header_ca) {
    return true;
  }
  return !identity->user && methods_.tokens;
}

bool TokenGate::concerns_workspace(const http::RequestHead& head,
                                   const http::PeerInfo& peer) const {
  const ConnectionIdentity* identity = identity_of(peer);
  if (methods_.workspaces == nullptr || is_probe(head.target) ||
      (identity != nullptr && identity->user && !identity->from_request_header_ca)) {
    return false;
  }
  std::optional<std::string> inside;
  if (judge_path(head.target) != PathVerdict::kUnclean) {
    inside = in_cluster_target(head);
  }
  const std::string cluster = cluster_of(view_->current(), inside ? *inside : head.target);
  return !cluster.empty() && methods_.workspaces->concern(cluster, may_have_token(head));
}

std::unique_ptr<http::RequestHandler> TokenGate::on_request(http::RequestHead head,
                                                            http::ResponseStream& stream) noexcept {
  if (methods_.workspaces != nullptr && is_token_review(head)) {
    std::string cluster = cluster_of(view_->current(), head.target);
    if (!cluster.empty() && methods_.workspaces->concern(cluster, true)) {
      return std::make_unique<TokenReviewRequest>(
          methods_.workspaces, std::move(cluster), std::move(head), stream,
          [this](http::RequestHead begun, http::ResponseStream& answer) {
            return identify(std::move(begun), answer);
          });
    }
  }
  return identify(std::move(head), stream);
}

std::unique_ptr<http::RequestHandler> TokenGate::identify(http::RequestHead head,
                                                          http::ResponseStream& stream) {
  const bool in_workspace = concerns_workspace(head, stream.peer());
  if (!in_workspace && !concerns(head, stream.peer())) {
    return inner_.on_request(std::move(head), stream);
  }
  auth::adopt_web_socket_token(head);
  if (judge_path(head.target) != PathVerdict::kUnclean) {
    if (auto inside = in_cluster_target(head)) {  // while the token is there
      head.target = std::move(*inside);
    }
  }
  const std::string cluster = cluster_of(view_->current(), head.target);
  auto waiting = std::make_unique<WaitingRequest>();
  auto held = std::make_shared<http::RequestHead>(std::move(head));
  const auto& authenticator = in_workspace ? methods_.in_workspaces : methods_.authenticator;
  authenticator->authenticate_with_source(
      *held, stream.peer(), cluster,
      [this, weak = waiting->weak(), held, &stream](Expected<Authenticated> result) {
        WaitingRequest* self = *weak;
        if (self == nullptr || self->closed()) {
          return;
        }
        if (result && result->user && result->source == auth::CredentialSource::kRequestHeader) {
          const ConnectionIdentity* proxy = identity_of(stream.peer());
          auth::drop_reserved(*result->user, auth::IdentityOrigin::kRequestHeader,
                              proxy != nullptr && methods_.border.is_peer(proxy->common_name));
        }
        if (result && result->source == auth::CredentialSource::kToken) {
          held->headers.remove("authorization");
        }
        auto identity = identity_from(result);
        if (identity == nullptr) {
          self->go_on(inner_.on_request(std::move(*held), stream));
        } else {
          self->go_on(std::make_unique<KnownRequest>(inner_, std::move(*held), stream,
                                                     std::move(identity)));
        }
      });
  return waiting;
}

}  // namespace kintsugi::proxy
