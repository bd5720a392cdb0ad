#include "proxy/gates/token_gate.h"

#include <optional>
#include <string>
#include <utility>

#include "http/guarded_answer.h"
#include "proxy/gates/internal/token_review.h"
#include "serving/identity.h"
#include "serving/pass_through.h"
#include "serving/waiting_request.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using Authenticated = auth::RequestAuthenticator::Authenticated;

constexpr Duration kLook = milliseconds(500);

bool is_probe(const krm::RequestTarget& target) {
  return target.form == krm::TargetForm::kProbe || target.form == krm::TargetForm::kInfo;
}

bool may_have_token(const http::RequestHead& head) {
  return head.headers.contains("authorization") || head.headers.contains("sec-websocket-protocol");
}

/// What became of the credentials, as the handler reads it. nullptr: the connection's own identity
/// stays.
std::shared_ptr<serving::ConnectionIdentity> identity_from(const Expected<Authenticated>& result) {
  auto identity = std::make_shared<serving::ConnectionIdentity>();
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
std::string cluster_of(const topology::Snapshot& facts, Request& request) {
  const std::string& named = request.target.cluster;
  if (named.empty() || named == "*") {
    return {};
  }
  const topology::Resolution& found = request.found(facts);
  return found.resolved() ? std::string(found.cluster) : std::string();
}

}  // namespace

/// A request whose identity is its own: the handler behind it sees another peer.
class TokenGate::KnownRequest final : public serving::PassThrough {
 public:
  /// @param followed null: nobody looks after its token
  KnownRequest(RoutedHandler& inner, Request&& request, http::ResponseStream& stream,
               std::shared_ptr<const serving::ConnectionIdentity> identity, Followed* followed)
      : serving::PassThrough(stream), followed_(followed) {
    const http::PeerInfo& peer = stream.peer();
    peer_.address = peer.address;
    peer_.port = peer.port;
    peer_.tls = peer.tls;
    peer_.identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(identity));
    begin(inner, std::move(request));
  }
  ~KnownRequest() override {
    if (rests_.proof == nullptr) {
      return;
    }
    (before_ != nullptr ? before_->after_ : followed_->first) = after_;
    (after_ != nullptr ? after_->before_ : followed_->last) = before_;
  }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return peer_; }

  /// What its identity rests on.
  struct Rests {
    std::shared_ptr<auth::Proof> proof;
    auth::BearerPtr token;  ///< until it is followed; null: another proxy says who asks
    std::string cluster;
    auth::ProofPtr asserter;  ///< the connection of that proxy; null: there is none
    std::string asserter_name;
  };
  /// That may end before the request does.
  void keep(Rests rests) {
    rests_ = std::move(rests);
    since_ = followed_->loop.now();
    before_ = followed_->last;
    (before_ != nullptr ? before_->after_ : followed_->first) = this;
    followed_->last = this;
  }
  [[nodiscard]] KnownRequest* next() const noexcept { return after_; }
  /// Now and then. @param may_assert tells whether a proxy of this name may still say who asks.
  /// @returns true when its proof ends hereby
  template <class MayAssert>
  bool look(TimePoint now, const MayAssert& may_assert) {
    auth::Proof& proof = *rests_.proof;
    bool ends = false;
    if (rests_.token != nullptr && now - since_ >= kGoesOn) {
      followed_->proofs->follow(rests_.proof, *rests_.token, rests_.cluster,
                                *serving::identity_of(peer_)->user);
      rests_.token.reset();
    }
    if (rests_.asserter != nullptr && !proof.ended) {
      ends = proof.ended = rests_.asserter->ended || !may_assert(rests_.asserter_name);
    }
    if (proof.ended && ended_at_ == TimePoint{}) {
      ended_at_ = now;
    } else if (proof.ended && now - ended_at_ >= kGrace) {
      ended_at_ = now;
      reset(Errc::kReset);
    }
    return ends;
  }

 private:
  static constexpr Duration kGoesOn = seconds(1);
  static constexpr Duration kGrace = seconds(60);

  Followed* followed_;
  http::PeerInfo peer_;
  Rests rests_;  // without a proof: not in the list
  TimePoint since_{}, ended_at_{};
  KnownRequest* before_ = nullptr;
  KnownRequest* after_ = nullptr;
};

TokenGate::TokenGate(std::shared_ptr<topology::SnapshotView> view, RoutedHandler& inner)
    : view_(std::move(view)), inner_(inner) {}

TokenGate::~TokenGate() = default;

void TokenGate::set_methods(Methods methods) {
  methods_ = std::move(methods);
  judge_again();
}

void TokenGate::judge_again() {
  if (followed_ != nullptr) {
    followed_->proofs->ask_all();
  }
}

void TokenGate::follow_proofs(net::Loop& loop, std::function<void()> ended) {
  followed_ = std::make_unique<Followed>(loop);
  followed_->proofs = std::make_unique<auth::TokenProofs>(
      loop, [this](std::string_view token, const std::string& cluster,
                   auth::TokenProofs::Done done) { ask(token, cluster, std::move(done)); });
  followed_->proofs->on_ended(ended);
  followed_->ended = std::move(ended);
}

void TokenGate::look() {
  const TimePoint now = followed_->loop.now();
  const auto may_assert = [this](std::string_view name) {
    return methods_.request_header && methods_.authenticator != nullptr &&
           methods_.authenticator->lets_assert(name);
  };
  bool ends = false;
  for (KnownRequest* request = followed_->first; request != nullptr;) {
    KnownRequest* const next = request->next();
    ends = request->look(now, may_assert) || ends;
    request = next;
  }
  if (ends) {
    followed_->ended();
  }
}

void TokenGate::arm() {
  if (followed_->first == nullptr || std::exchange(followed_->armed, true)) {
    return;
  }
  followed_->timer.start(kLook, [this] {
    followed_->armed = false;
    look();
    arm();
  });
}

/// As identify() would have it judged.
void TokenGate::ask(std::string_view token, const std::string& cluster,
                    auth::TokenProofs::Done done) {
  const bool in_workspace = methods_.workspaces != nullptr && !cluster.empty() &&
                            methods_.workspaces->concern(cluster, true);
  const auto& authenticator = in_workspace ? methods_.in_workspaces : methods_.authenticator;
  if (authenticator == nullptr) {
    done(std::nullopt);
    return;
  }
  authenticator->authenticate_with_source({}, std::make_shared<const auth::Bearer>(token),
                                          http::PeerInfo(), cluster,
                                          [done = std::move(done)](Expected<Authenticated> result) {
                                            if (result) {
                                              done(std::move(result->user));
                                            } else {
                                              done(fail(std::move(result.error())));
                                            }
                                          });
}

bool TokenGate::concerns(const Request& request, const http::PeerInfo& peer) const {
  if (methods_.authenticator == nullptr || is_probe(request.target)) {
    return false;
  }
  const serving::ConnectionIdentity* identity = serving::identity_of(peer);
  if (identity == nullptr) {
    return methods_.tokens && (methods_.must_have || may_have_token(request.head));
  }
  if (methods_.request_header && identity->from_request_header_ca) {
    return true;
  }
  return !identity->user && methods_.tokens;
}

bool TokenGate::concerns_workspace(Request& request, const http::PeerInfo& peer,
                                   std::optional<std::string>& cluster) const {
  const serving::ConnectionIdentity* identity = serving::identity_of(peer);
  if (methods_.workspaces == nullptr || is_probe(request.target) ||
      (identity != nullptr && identity->user && !identity->from_request_header_ca)) {
    return false;
  }
  cluster = cluster_of(view_->current(), request);
  return !cluster->empty() && methods_.workspaces->concern(*cluster, may_have_token(request.head));
}

std::unique_ptr<http::RequestHandler> TokenGate::on_request(Request&& request,
                                                            http::ResponseStream& stream) noexcept {
  const bool head_only = request.head.method == "HEAD";
  return http::guarded_answer("token gate", stream, head_only,
                              [&] { return begin(std::move(request), stream); });
}

std::unique_ptr<http::RequestHandler> TokenGate::begin(Request&& request,
                                                       http::ResponseStream& stream) {
  if (methods_.workspaces != nullptr && is_token_review(request)) {
    std::string cluster = cluster_of(view_->current(), request);
    if (!cluster.empty() && methods_.workspaces->concern(cluster, true)) {
      return std::make_unique<TokenReviewRequest>(
          methods_.workspaces, std::move(cluster), std::move(request), stream,
          [this](Request&& begun, http::ResponseStream& answer) {
            return identify(std::move(begun), answer);
          });
    }
  }
  return identify(std::move(request), stream);
}

std::unique_ptr<http::RequestHandler> TokenGate::identify(Request&& request,
                                                          http::ResponseStream& stream) {
  if (methods_.authenticator == nullptr && methods_.workspaces == nullptr) {
    return inner_.on_request(std::move(request), stream);
  }
  std::optional<std::string> known;
  const bool in_workspace = concerns_workspace(request, stream.peer(), known);
  if (!in_workspace && !concerns(request, stream.peer())) {
    return inner_.on_request(std::move(request), stream);
  }
  const std::string cluster = known ? std::move(*known) : cluster_of(view_->current(), request);
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto held = std::make_shared<Request>(std::move(request));
  const auto& authenticator = in_workspace ? methods_.in_workspaces : methods_.authenticator;
  authenticator->authenticate_with_source(
      held->head.headers, held->bearer(), stream.peer(), cluster,
      [this, weak = waiting->weak(), held, cluster, &stream](Expected<Authenticated> result) {
        serving::WaitingRequest* self = *weak;
        if (self == nullptr || self->closed()) {
          return;
        }
        const auth::CredentialSource source =
            result ? result->source : auth::CredentialSource::kNone;
        if (result && result->user && source == auth::CredentialSource::kRequestHeader) {
          const serving::ConnectionIdentity* proxy = serving::identity_of(stream.peer());
          auth::drop_reserved(*result->user, auth::IdentityOrigin::kRequestHeader,
                              proxy != nullptr && methods_.border.is_peer(proxy->common_name));
        }
        auto identity = identity_from(result);
        if (identity == nullptr) {
          self->go_on(inner_.on_request(std::move(*held), stream));
          return;
        }
        auth::BearerPtr token;
        if (source == auth::CredentialSource::kToken) {
          token = held->bearer();
          held->head.headers.remove("authorization");
        }
        const bool asserted = source == auth::CredentialSource::kRequestHeader;
        identity->proof = auth::proof_of(stream.peer());
        if (followed_ == nullptr || (token == nullptr && !asserted)) {
          self->go_on(std::make_unique<KnownRequest>(inner_, std::move(*held), stream,
                                                     std::move(identity), nullptr));
          return;
        }
        KnownRequest::Rests rests{followed_->proofs->begin(), std::move(token), cluster,
                                  asserted ? identity->proof : nullptr,
                                  asserted ? serving::identity_of(stream.peer())->common_name : ""};
        identity->proof = rests.proof;
        auto followed = std::make_unique<KnownRequest>(inner_, std::move(*held), stream,
                                                       std::move(identity), followed_.get());
        followed->keep(std::move(rests));
        self->go_on(std::move(followed));
        arm();
      });
  return waiting;
}

}  // namespace kintsugi::proxy
