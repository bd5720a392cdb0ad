#include "proxy/token_gate.h"

#include <optional>
#include <string>
#include <utility>

#include "auth/web_socket_token.h"
#include "http/guarded_answer.h"
#include "proxy/identity.h"
#include "proxy/in_cluster.h"
#include "proxy/parse_for.h"
#include "proxy/pass_through.h"
#include "proxy/token_review.h"
#include "proxy/waiting_request.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using Authenticated = auth::RequestAuthenticator::Authenticated;

bool is_probe(const krm::RequestTarget& target) { return target.form == krm::TargetForm::kProbe; }

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
std::string cluster_of(const topology::Snapshot& facts, const krm::RequestTarget& target) {
  if (target.cluster.empty() || target.cluster == "*") {
    return {};
  }
  const topology::Resolution found = topology::resolve(facts, target.cluster);
  return found.resolved() ? std::string(found.cluster) : std::string();
}

}  // namespace

TokenGate::TokenGate(std::shared_ptr<topology::SnapshotView> view, http::Handler& inner)
    : view_(std::move(view)), inner_(inner) {}

bool TokenGate::concerns(const http::RequestHead& head, const krm::RequestTarget& target,
                         const http::PeerInfo& peer) const {
  if (methods_.authenticator == nullptr || is_probe(target)) {
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

bool TokenGate::concerns_workspace(const http::RequestHead& head, const krm::RequestTarget& target,
                                   const http::PeerInfo& peer) const {
  const ConnectionIdentity* identity = identity_of(peer);
  if (methods_.workspaces == nullptr || is_probe(target) ||
      (identity != nullptr && identity->user && !identity->from_request_header_ca)) {
    return false;
  }
  const std::optional<std::string> inside = in_cluster_target(head, target);
  const std::string cluster =
      cluster_of(view_->current(), inside ? krm::parse_target(head.method, *inside) : target);
  return !cluster.empty() && methods_.workspaces->concern(cluster, may_have_token(head));
}

std::unique_ptr<http::RequestHandler> TokenGate::on_request(http::RequestHead head,
                                                            http::ResponseStream& stream) noexcept {
  const bool head_only = head.method == "HEAD";
  return http::guarded_answer("token gate", stream, head_only,
                              [&] { return begin(std::move(head), stream); });
}

std::unique_ptr<http::RequestHandler> TokenGate::begin(http::RequestHead head,
                                                       http::ResponseStream& stream) {
  if (methods_.workspaces != nullptr && is_token_review(head)) {
    std::string cluster = cluster_of(view_->current(), parse_for(view_->current(), head));
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
  if (methods_.authenticator == nullptr && methods_.workspaces == nullptr) {
    return inner_.on_request(std::move(head), stream);
  }
  krm::RequestTarget target = parse_for(view_->current(), head);
  const bool in_workspace = concerns_workspace(head, target, stream.peer());
  if (!in_workspace && !concerns(head, target, stream.peer())) {
    return inner_.on_request(std::move(head), stream);
  }
  auth::adopt_web_socket_token(head);
  if (auto inside = in_cluster_target(head, target)) {  // while the token is there
    head.target = std::move(*inside);
    target = parse_for(view_->current(), head);
  }
  const std::string cluster = cluster_of(view_->current(), target);
  auto waiting = std::make_unique<WaitingRequest>();
  auto held = std::make_shared<http::RequestHead>(std::move(head));
  const auto& authenticator = in_workspace ? methods_.in_workspaces : methods_.authenticator;
  authenticator->authenticate_with_source(
      *held, stream.peer(), cluster,
      [this, weak = waiting->weak(), held, &stream](const Expected<Authenticated>& result) {
        WaitingRequest* self = *weak;
        if (self == nullptr || self->closed()) {
          return;
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
