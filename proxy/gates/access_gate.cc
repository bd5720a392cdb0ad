#include "proxy/gates/access_gate.h"

#include <string_view>
#include <utility>

#include "auth/audit_event.h"
#include "base/guard.h"
#include "base/time.h"
#include "http/guarded_answer.h"
#include "proxy/gates/internal/access_line.h"
#include "serving/pass_through.h"

namespace kintsugi::proxy {

class AccessGate::Logged final : public serving::PassThrough {
 public:
  Logged(AccessGate& gate, Request&& request, http::ResponseStream& stream)
      : serving::PassThrough(stream),
        gate_(gate),
        info_(request.info()),
        note_(std::make_shared<AccessNote>()),
        method_(request.head.method),
        target_(request.sent.empty() ? request.head.target : request.sent),
        agent_(request.head.headers.get("user-agent")),
        audit_id_(request.head.headers.get("audit-id")),
        trace_(request.head.headers.get("traceparent")),
        version_(request.head.version),
        goes_on_(info_->verb == "watch" || !request.head.protocol.empty()),
        at_(unix_microseconds()),
        begun_(gate.loop_.now()) {
    request.note = note_;
    begin(gate.inner_, std::move(request));
  }

  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    code_ = status;
    first_ = gate_.loop_.now() - begun_;
    serving::PassThrough::send_head(status, headers, end);
    ended_ = ended_ || end;
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    out_ += bytes.size();
    serving::PassThrough::send_data(bytes, end);
    ended_ = ended_ || end;
  }
  void send_data(SharedBytes bytes, bool end) noexcept override {
    out_ += bytes.size();
    serving::PassThrough::send_data(std::move(bytes), end);
    ended_ = ended_ || end;
  }
  void send_trailers(const http::HeaderList& trailers) noexcept override {
    serving::PassThrough::send_trailers(trailers);
    ended_ = true;
  }
  void reset(Errc cause) noexcept override {
    was_reset_ = true;
    was_evicted_ = cause == Errc::kOverloaded;
    serving::PassThrough::reset(cause);
  }
  void on_data(std::string_view bytes, bool end) noexcept override {
    in_ += bytes.size();
    serving::PassThrough::on_data(bytes, end);
  }
  void on_close(Errc cause) noexcept override {
    serving::PassThrough::on_close(cause);
    guarded("access line", [&] { tell(cause); });
  }

 private:
  void tell(Errc cause) {
    const bool was_cut = cause != Errc::kOk && !ended_;
    const AccessEvent event{.at = at_,
                            .took = gate_.loop_.now() - begun_,
                            .first = first_,
                            .method = method_,
                            .target = target_,
                            .address = peer().address,
                            .agent = agent_,
                            .audit_id = audit_id_,
                            .version = version_,
                            .trace_parent = trace_,
                            .info = *info_,
                            .note = *note_,
                            .code = code_,
                            .in = in_,
                            .out = out_,
                            .was_cut = was_cut,
                            .client_went = was_cut && !was_reset_,
                            .was_evicted = was_evicted_};
    if (always_told(event, goes_on_, gate_.config_.slow) || gate_.is_chosen()) {
      gate_.write_(gate_.config_.as_text ? access_text(event) : access_json(event));
    }
  }

  AccessGate& gate_;
  const std::shared_ptr<const krm::RequestInfo> info_;
  const std::shared_ptr<AccessNote> note_;
  const std::string method_, target_, agent_, audit_id_, trace_;
  const int version_;
  const bool goes_on_;
  const std::int64_t at_;
  const TimePoint begun_;
  Duration first_ = Duration(-1);
  std::uint64_t in_ = 0, out_ = 0;
  int code_ = 0;
  bool ended_ = false, was_reset_ = false, was_evicted_ = false;
};

std::unique_ptr<http::RequestHandler> AccessGate::on_request(
    Request&& request, http::ResponseStream& stream) noexcept {
  if (!write_) {
    return inner_.on_request(std::move(request), stream);
  }
  const bool head_only = std::string_view(request.head.method) == "HEAD";
  return http::guarded_answer("access gate", stream, head_only, [&] {
    http::HeaderList& headers = request.head.headers;
    headers.set("audit-id", auth::audit_id_of(headers.get("audit-id")));
    return std::unique_ptr<http::RequestHandler>(
        std::make_unique<Logged>(*this, std::move(request), stream));
  });
}

bool AccessGate::is_chosen() noexcept {
  chance_ ^= chance_ << 13U;
  chance_ ^= chance_ >> 7U;
  chance_ ^= chance_ << 17U;
  constexpr double kWhole = 9007199254740992.0;  // 2^53
  return static_cast<double>(chance_ >> 11U) / kWhole < config_.sample;
}

}  // namespace kintsugi::proxy
