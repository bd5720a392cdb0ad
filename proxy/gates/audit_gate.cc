#include "proxy/gates/audit_gate.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "auth/audit_event.h"
#include "auth/audit_refusals.h"
#include "auth/impersonation.h"
#include "base/guard.h"
#include "base/time.h"
#include "http/guarded_answer.h"
#include "serving/identity.h"
#include "serving/pass_through.h"

namespace kintsugi::proxy {
namespace {

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
  Audited(AuditGate& gate, Request&& request, http::ResponseStream& stream,
          auth::AuditPolicy::Verdict verdict)
      : serving::PassThrough(stream),
        gate_(gate),
        verdict_(verdict),
        refusals_only_(verdict.level == auth::AuditPolicy::Level::kNone),
        info_(request.info()),
        cluster_(request.target.cluster),
        id_(request.head.headers.get("audit-id")),
        target_(request.sent.empty() ? request.head.target : request.sent),
        agent_(request.head.headers.get("user-agent")),
        identity_(stream.peer().identity),
        received_at_(unix_microseconds()),
        received_(gate.loop_.now()) {
    goes_on_ = info_->verb == "watch" || !request.head.protocol.empty();
    impersonated_ = impersonated_by(request.head, user());
    begin(gate.inner_, std::move(request));
  }

  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    status_ = status;
    if (goes_on_ && !end && verdict_.started && !refusals_only_) {
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
    if (!end || std::exchange(complete_, true)) {
      return;
    }
    if (refusals_only_) {
      guarded("audit line", [this] { write_refusal(); });
    } else if (verdict_.complete) {
      guarded("audit line", [this] { write(auth::kResponseComplete); });
    }
  }

  /// Whatever the policy says (SE-007), as far as there is room for such lines.
  void write_refusal() {
    auth::AuditRefusals& all = auth::audit_refusals();
    if (!auth::is_refusal(status_) || !all.may_write(gate_.loop_.now())) {
      return;
    }
    if (const std::uint64_t left_out = all.take_left_out(); left_out > 0) {
      annotations_.emplace_back("audit.kintsugi.io/refusals-left-out", std::to_string(left_out));
    }
    all.wrote(write(auth::kResponseComplete));
  }

  /// @return bytes of the line
  std::size_t write(std::string_view stage) {
    std::string line = auth::audit_line({.id = id_,
                                         .stage = stage,
                                         .target = target_,
                                         .info = *info_,
                                         .user = user(),
                                         .impersonated = impersonated_ ? &*impersonated_ : nullptr,
                                         .constraint = {},
                                         .address = peer().address,
                                         .agent = agent_,
                                         .cluster = cluster_,
                                         .annotations = &annotations_,
                                         .status = status_,
                                         .received_at = received_at_,
                                         .taken = gate_.loop_.now() - received_});
    const std::size_t bytes = line.size();
    gate_.write_(std::move(line));
    return bytes;
  }

  AuditGate& gate_;
  const auth::AuditPolicy::Verdict verdict_;
  const bool refusals_only_;  // the policy wants no line of it
  const std::shared_ptr<const krm::RequestInfo> info_;
  const std::string cluster_;  // as the target names it; "": none
  const std::string id_, target_, agent_;
  const std::shared_ptr<const void> identity_;  // what user() refers to
  const std::int64_t received_at_;
  const TimePoint received_;
  std::optional<auth::UserInfo> impersonated_;
  std::vector<std::pair<std::string, std::string>> annotations_;
  int status_ = 0;
  bool goes_on_ = false, complete_ = false;
};

std::unique_ptr<http::RequestHandler> AuditGate::on_request(Request&& request,
                                                            http::ResponseStream& stream) noexcept {
  if (!write_ || policy_ == nullptr) {
    return inner_.on_request(std::move(request), stream);
  }
  const bool head_only = std::string_view(request.head.method) == "HEAD";
  return http::guarded_answer("audit gate", stream, head_only,
                              [&] { return begin(std::move(request), stream); });
}

std::unique_ptr<http::RequestHandler> AuditGate::begin(Request&& request,
                                                       http::ResponseStream& stream) {
  http::HeaderList& headers = request.head.headers;
  headers.set("audit-id", auth::audit_id_of(headers.get("audit-id")));
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  const auth::UserInfo* user = identity != nullptr && identity->user ? &*identity->user : nullptr;
  const auth::AuditPolicy::Verdict verdict = policy_->judge(*request.info(), user);
  return std::make_unique<Audited>(*this, std::move(request), stream, verdict);
}

}  // namespace kintsugi::proxy
