#include "proxy/gates/existence_gate.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "auth/impersonation.h"
#include "http/wire.h"
#include "krm/not_permitted.h"
#include "krm/path_prefixes.h"
#include "krm/request_target.h"
#include "krm/service_path.h"
#include "krm/status.h"
#include "proxy/gates/impersonation_gate.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "serving/pass_through.h"
#include "serving/waiting_request.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using Kind = topology::Resolution::Kind;

constexpr std::string_view kSystem = "system:";
constexpr int kFirstError = 400;
constexpr std::size_t kMostHeld = 256U
                                  << 10;  // [bytes] of a refusal, until it is known whose it is

/// Whose existence an answer would tell.
struct Place {
  bool concerns = false;      ///< anybody's at all
  std::string cluster;        ///< as the target names it; "": nobody's in particular
  bool by_partition = false;  ///< below /partitions/
  bool is_service = false;
  bool by_shard = false;  ///< below /shards/, and no virtual workspace
};

/// Who owns what a virtual workspace serves; "": nobody's workspace.
std::string service_owner(const Request& request) {
  const std::string& owner = request.target.path->owner;
  return owner.starts_with(kSystem) ? std::string() : owner;
}

Place owner_of(Request& request) {
  const krm::RequestTarget& parsed = request.target;
  Place place;
  if (parsed.form == krm::TargetForm::kOther || parsed.form == krm::TargetForm::kNoService) {
    return place;  // no route, whoever asks (SE-033)
  }
  if (parsed.scope == krm::TargetScope::kPartition) {
    place.concerns = place.by_partition = true;
    place.cluster = parsed.scope_cluster;
    return place;
  }
  place.concerns = parsed.scope == krm::TargetScope::kShard;
  if (parsed.form == krm::TargetForm::kService && parsed.service != krm::VirtualWorkspace::kOther) {
    place.is_service = place.concerns = true;
    place.cluster = service_owner(request);
  } else if (parsed.form == krm::TargetForm::kCluster) {
    place.by_shard = place.concerns;
    place.concerns = true;
    place.cluster = parsed.cluster == "*" ? std::string() : parsed.cluster;
  }
  return place;
}

/// Adds what shards say of every answer.
class Private final : public serving::PassThrough {
 public:
  explicit Private(http::ResponseStream& stream) : serving::PassThrough(stream) {}
  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    http::HeaderList all = headers;
    all.set("cache-control", "no-cache, private");
    serving::PassThrough::send_head(status, all, end);
  }
};

void send_private(http::ResponseStream& stream, const serving::AnswerForm& form,
                  const Error& error) {
  Private answer(stream);
  serving::send_error(answer, form, error);
}

std::unique_ptr<http::RequestHandler> answer_private(const http::RequestHead& head,
                                                     http::ResponseStream& stream,
                                                     const Error& error) {
  send_private(stream, serving::AnswerForm::of(head), error);
  return serving::swallow(stream);
}

bool is_privileged(const auth::UserInfo& user) {
  return user.in_group(auth::kGroupMasters) || user.in_group(auth::kGroupKcpAdmin);
}

}  // namespace

/// A request of somebody who is known, or whom a shard may know.
class ExistenceGate::Guarded final : public serving::PassThrough {
 public:
  /// @param judged  who asks, if his connection does not say it and a shard has been asked
  Guarded(ExistenceGate& gate, Request&& request, http::ResponseStream& stream, Place place,
          User judged)
      : serving::PassThrough(stream),
        client_(stream),
        gate_(gate),
        place_(std::move(place)),
        judged_(std::move(judged)),
        token_(known() != nullptr ? nullptr : request.bearer()),
        method_(request.head.method),
        target_(request.head.target),
        form_(serving::AnswerForm::of(request.head)) {
    begin(gate_.inner_, std::move(request));
  }
  ~Guarded() override { *alive_ = nullptr; }

  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    const std::string_view access = headers.get(krm::kAccessHeader);
    if (status == 403 && access == krm::kAccessDenied) {
      refuse(serving::not_permitted(method_, target_));
    } else if (status != 401 && !access.empty()) {  // the shard has judged that already
      http::HeaderList plain = headers;
      plain.remove(krm::kAccessHeader);
      serving::PassThrough::send_head(status, plain, end);
    } else if (const auth::UserInfo* user = known();
               user != nullptr ? tells(status) : may_be_ours(status)) {
      status_ = status;
      headers_ = headers;
      ended_ = end;
      state_ = State::kHeld;  // whoever answers may go on before it is decided
      if (user != nullptr) {
        review(*user);
      } else {
        judge();
      }
    } else if (status == 401) {
      refuse(krm::unauthorized());
    } else {
      serving::PassThrough::send_head(status, headers, end);
    }
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    if (state_ == State::kPassing) {
      serving::PassThrough::send_data(bytes, end);
    } else {
      keep(bytes, end);
    }
  }
  void send_data(SharedBytes bytes, bool end) noexcept override {
    if (state_ == State::kPassing) {
      serving::PassThrough::send_data(std::move(bytes), end);
    } else {
      keep(bytes.view(), end);
    }
  }
  void send_trailers(const http::HeaderList& trailers) noexcept override {
    if (state_ == State::kPassing) {
      serving::PassThrough::send_trailers(trailers);
    } else {
      keep({}, true);
    }
  }
  void reset(Errc cause) noexcept override {
    if (state_ == State::kPassing) {
      serving::PassThrough::reset(cause);
    } else if (state_ == State::kHeld) {
      state_ = State::kPassing;
      serving::PassThrough::reset(cause);
    }
  }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override {
    return state_ == State::kPassing ? serving::PassThrough::unsent_bytes() : body_.size();
  }
  void on_close(Errc cause) noexcept override {
    *alive_ = nullptr;
    serving::PassThrough::on_close(cause);
  }

 private:
  enum class State : std::uint8_t {
    kPassing,
    kHeld,     ///< until it is known whether the caller may know of the cluster
    kReplaced  ///< by an answer of ours
  };

  [[nodiscard]] bool tells(int status) const {
    const bool at_views = place_.is_service || place_.by_partition;
    return !place_.cluster.empty() && (status == 403 || (status == 404 && at_views));
  }

  /// Who asks; null: nobody has found out here.
  [[nodiscard]] const auth::UserInfo* known() const {
    const serving::ConnectionIdentity* identity = serving::identity_of(peer());
    if (identity != nullptr && identity->user) {
      return &*identity->user;
    }
    return judged_ ? &*judged_ : nullptr;
  }

  /// An answer to a token that nobody may have judged: of the proxy itself, or of a shard that does
  /// not know the accounts of another one.
  [[nodiscard]] bool may_be_ours(int status) const {
    if (status == 401) {
      return token_ != nullptr && !token_cluster(*token_).empty();
    }
    return status >= kFirstError &&
           (place_.cluster.empty() || place_.is_service || place_.by_partition);
  }

  void judge() {
    gate_.judge(token_, [alive = alive_](User user) {
      Guarded* const self = *alive;
      if (self == nullptr || self->state_ != State::kHeld) {
        return;
      }
      if (!user) {
        self->refuse(krm::unauthorized());
      } else if (self->status_ == 401) {
        self->refuse(serving::not_permitted(self->method_, self->target_));
      } else if (self->tells(self->status_)) {
        self->review(*user);
      } else {
        self->decide(true);
      }
    });
  }

  void keep(std::string_view bytes, bool end) {
    if (state_ == State::kHeld && body_.size() + bytes.size() <= kMostHeld) {
      body_.append(bytes);
      ended_ = ended_ || end;
    }
  }

  void refuse(const Error& error) {
    state_ = State::kReplaced;
    body_ = {};
    send_private(client_, form_, error);
  }

  void review(const auth::UserInfo& user) {
    const topology::Resolution found = topology::resolve(gate_.view_->current(), place_.cluster);
    if (found.kind == Kind::kNotFound || found.kind == Kind::kUnavailable) {
      decide(false);
      return;
    }
    if (!found.resolved()) {  // a mount: what is behind it judges itself
      decide(true);
      return;
    }
    auth::Attributes access;
    access.user = user;
    access.cluster = found.cluster;
    access.is_resource = false;
    access.verb = "access";
    access.path = "/";
    // A cluster that is inactive answers no review.
    const bool else_allowed = is_privileged(user);
    gate_.authorizer_.authorize(
        access, [alive = alive_, else_allowed](const Expected<auth::Decision>& decision) {
          if (Guarded* self = *alive; self != nullptr && self->state_ == State::kHeld) {
            self->decide(decision ? decision->allowed : else_allowed);
          }
        });
  }

  void decide(bool may_know) {
    if (!may_know) {
      refuse(serving::not_permitted(method_, target_));
      return;
    }
    state_ = State::kPassing;
    const bool bodiless = ended_ && body_.empty();
    serving::PassThrough::send_head(status_, headers_, bodiless);
    if (!body_.empty()) {
      serving::PassThrough::send_data(std::string_view(body_), ended_);
    }
    body_ = {};
  }

  http::ResponseStream& client_;
  ExistenceGate& gate_;
  const Place place_;
  const User judged_;
  const auth::BearerPtr token_;  ///< null: there is none, or it is known who asks
  const std::string method_, target_;
  const serving::AnswerForm form_;
  State state_ = State::kPassing;
  int status_ = 0;
  bool ended_ = false;
  http::HeaderList headers_;
  std::string body_;
  std::shared_ptr<Guarded*> alive_ = std::make_shared<Guarded*>(this);
};

ExistenceGate::ExistenceGate(std::shared_ptr<topology::SnapshotView> view,
                             auth::Authorizer& authorizer, auth::Authenticator& tokens,
                             RoutedHandler& inner)
    : view_(std::move(view)), authorizer_(authorizer), tokens_(tokens), inner_(inner) {}

void ExistenceGate::judge(const auth::BearerPtr& token, std::function<void(User)> done) {
  if (token == nullptr || token->text().empty()) {
    done(std::nullopt);
    return;
  }
  http::RequestHead head;
  head.headers.add("authorization", "Bearer " + token->text());
  // Where its account is; everybody else is known wherever root is.
  const std::string_view cluster = token_cluster(*token);
  tokens_.authenticate(head, token, http::PeerInfo(), cluster.empty() ? "root" : cluster,
                       [done = std::move(done)](Expected<User> user) {
                         done(user ? std::move(*user) : std::nullopt);
                       });
}

std::unique_ptr<http::RequestHandler> ExistenceGate::when_known(Request&& request,
                                                                http::ResponseStream& stream,
                                                                Then then) {
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto held = std::make_shared<Request>(std::move(request));
  judge(held->bearer(), [weak = waiting->weak(), held, &stream, then = std::move(then)](User user) {
    serving::WaitingRequest* self = *weak;
    if (self != nullptr && !self->closed()) {
      self->go_on(user ? then(std::move(*held), std::move(*user))
                       : answer_private(held->head, stream, krm::unauthorized()));
    }
  });
  return waiting;
}

std::unique_ptr<http::RequestHandler> ExistenceGate::on_request(
    Request&& request, http::ResponseStream& stream) noexcept {
  const http::RequestHead& head = request.head;
  Place place = request.target.fault == krm::TargetFault::kNone ? owner_of(request) : Place();
  if (!place.concerns) {
    return inner_.on_request(std::move(request), stream);
  }
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity != nullptr && identity->refusal != nullptr) {
    return answer_private(head, stream, *identity->refusal);
  }
  const bool has_token = identity == nullptr && head.headers.contains("authorization");
  if (identity != nullptr ? !identity->user : !has_token) {
    if (identity != nullptr) {
      stream.close_connection_after();
    }
    return answer_private(head, stream, krm::unauthorized());
  }
  // What is refused whatever the place is, before it is looked up.
  if (!http::is_known_method(head.method)) {
    return answer_private(head, stream,
                          has_token ? krm::unauthorized() : krm::method_not_allowed());
  }
  if (auth::has_impersonation(head.headers)) {
    if (auto error = judge_impersonation_of(request, identity, view_->current())) {
      if (!has_token) {
        return answer_private(head, stream, *error);
      }
      // Authentication comes first (KK-001).
      return when_known(std::move(request), stream,
                        [&stream, why = std::make_shared<const Error>(std::move(*error))](
                            Request held, const auth::UserInfo& /*user*/) {
                          return answer_private(held.head, stream, *why);
                        });
    }
  }
  // The way around a Partition's view takes a right in root, which nobody unknown has.
  if (has_token && place.by_shard) {
    return answer_private(head, stream, krm::unauthorized());
  }
  const auto is_nobodys = [&](const std::string& cluster) {
    if (cluster.empty() || cluster == "*") {
      return false;
    }
    const topology::Snapshot& facts = view_->current();
    const Kind found = cluster == request.target.cluster ? request.found(facts).kind
                                                         : topology::resolve(facts, cluster).kind;
    return found == Kind::kNotFound || found == Kind::kUnavailable;
  };
  // No shard would judge it.
  if (has_token && (is_nobodys(place.cluster) || is_nobodys(request.target.cluster))) {
    return when_known(
        std::move(request), stream, [this, &stream, place](Request held, auth::UserInfo user) {
          return std::make_unique<Guarded>(*this, std::move(held), stream, place, std::move(user));
        });
  }
  return std::make_unique<Guarded>(*this, std::move(request), stream, std::move(place),
                                   std::nullopt);
}

}  // namespace kintsugi::proxy
