#include "proxy/gates/audit_gate.h"

#include <optional>
#include <tuple>

#include "auth/audit_event.h"
#include "auth/impersonation.h"
#include "base/time.h"
#include "http/guarded_answer.h"
#include "krm/request_target.h"
#include "proxy/routing/in_cluster.h"
#include "serving/identity.h"
#include "serving/pass_through.h"

namespace kintsugi::proxy {
namespace {

/// What is asked for, below the logical cluster that the target names.
struct Asked {
  krm::RequestInfo info;
  std::string cluster;  ///< as the target names it; "": none
};

/// The same for every form, also for what is refused: one reading for audit, rights and routes.
Asked asked_by(const http::RequestHead& head) {
  const auto read = [&head](std::string_view target) {
    krm::RequestTarget parsed = krm::parse_target(head.method, target, {.opaque_proxy = true});
    krm::RequestInfo info = krm::request_info_of(head.method, target, parsed);
    return std::pair(std::move(parsed), std::move(info));
  };
  auto [parsed, info] = read(head.target);
  if (const auto inside = in_cluster_target(head, parsed)) {
    std::tie(parsed, info) = read(*inside);
  }
  return {std::move(info), std::move(parsed.cluster)};
}

/// As the caller names it: whether that is allowed is for the shard to say.
std::optional<auth::UserInfo> impersonated_by(const http::RequestHead& head,
                                              const auth::UserInfo* user) {
  auto named = user == nullptr ? Expected<std::optional<auth::UserInfo>>(std::nullopt)
                               : auth::read_impersonation(head.headers, *user);
  return named ? std::move(*named) : std::nullopt;
}

}  // namespace

/// A request that has lines.
class AuditGate::Audited final : public serving::PassThrough {
 public:
  Audited(AuditGate& gate, http::RequestHead head, http::ResponseStream& stream, Asked asked,
          auth::AuditPolicy::Verdict verdict)
      : serving::PassThrough(stream),
        gate_(gate),
        verdict_(verdict),
        asked_(std::move(asked)),
        id_(head.headers.get("audit-id")),
        target_(head.target),
        agent_(head.headers.get("user-agent")),
        identity_(stream.peer().identity),
        received_at_(unix_microseconds()),
        received_(gate.loop_.now()) {
    goes_on_ = asked_.info.verb == "watch" || !head.protocol.empty();
    impersonated_ = impersonated_by(head, user());
    begin(gate.inner_, std::move(head));
  }

  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    status_ = status;
    if (goes_on_ && !end && verdict_.started) {
      write(auth::kResponseStarted);
    }
    serving::PassThrough::send_head(status, headers, end);
    note(end);
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    serving::PassThrough::send_data(bytes, end);
    note(end);
  }
  void send_data(SharedBytes bytes, bool end) noexcept override {
    serving::PassThrough::send_data(std::move(bytes), end);
    note(end);
  }
  void send_trailers(const http::HeaderList& trailers) noexcept override {
    serving::PassThrough::send_trailers(trailers);
    note(true);
  }
  void on_close(Errc cause) noexcept override {
    serving::PassThrough::on_close(cause);
    note(true);  // an answer that was cut off, or none
  }

 private:
  [[nodiscard]] const auth::UserInfo* user() const {
    // What the request began with: the connection's may have ended since.
    const auto* identity = static_cast<const serving::ConnectionIdentity*>(
        static_cast<const auth::CertificateIdentity*>(identity_.get()));
    return identity != nullptr && identity->user ? &*identity->user : nullptr;
  }

  void note(bool end) {
    if (end && !std::exchange(complete_, true) && verdict_.complete) {
      write(auth::kResponseComplete);
    }
  }

  void write(std::string_view stage) {
    gate_.write_(auth::audit_line({.id = id_,
                                   .stage = stage,
                                   .target = target_,
                                   .info = asked_.info,
                                   .user = user(),
                                   .impersonated = impersonated_ ? &*impersonated_ : nullptr,
                                   .constraint = {},
                                   .address = peer().address,
                                   .agent = agent_,
                                   .cluster = asked_.cluster,
                                   .status = status_,
                                   .received_at = received_at_,
                                   .taken = gate_.loop_.now() - received_}));
  }

  AuditGate& gate_;
  const auth::AuditPolicy::Verdict verdict_;
  const Asked asked_;
  const std::string id_, target_, agent_;
  const std::shared_ptr<const void> identity_;  // what user() refers to
  const std::int64_t received_at_;
  const TimePoint received_;
  std::optional<auth::UserInfo> impersonated_;
  int status_ = 0;
  bool goes_on_ = false, complete_ = false;
};

std::unique_ptr<http::RequestHandler> AuditGate::on_request(http::RequestHead head,
                                                            http::ResponseStream& stream) noexcept {
  if (!write_ || policy_ == nullptr) {
    return inner_.on_request(std::move(head), stream);
  }
  const bool head_only = head.method == "HEAD";
  return http::guarded_answer("audit gate", stream, head_only,
                              [&] { return begin(std::move(head), stream); });
}

std::unique_ptr<http::RequestHandler> AuditGate::begin(http::RequestHead head,
                                                       http::ResponseStream& stream) {
  head.headers.set("audit-id", auth::audit_id_of(head.headers.get("audit-id")));
  Asked asked = asked_by(head);
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  const auth::UserInfo* user = identity != nullptr && identity->user ? &*identity->user : nullptr;
  const auth::AuditPolicy::Verdict verdict = policy_->judge(asked.info, user);
  if (verdict.level == auth::AuditPolicy::Level::kNone) {
    return inner_.on_request(std::move(head), stream);
  }
  return std::make_unique<Audited>(*this, std::move(head), stream, std::move(asked), verdict);
}

}  // namespace kintsugi::proxy
