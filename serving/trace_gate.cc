#include "serving/trace_gate.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "auth/x509_identity.h"
#include "base/guard.h"
#include "base/shown_text.h"
#include "base/strings.h"
#include "base/time.h"
#include "base/trace.h"
#include "http/guarded_answer.h"
#include "krm/request_info.h"
#include "krm/request_target.h"
#include "serving/pass_through.h"

namespace kintsugi::serving {
namespace {

constexpr std::string_view kParent = "traceparent", kState = "tracestate";
constexpr std::size_t kMostPath = 256, kMostText = 128, kMostState = 512;  // bytes
constexpr int kUnauthorized = 401, kForbidden = 403, kNotFound = 404, kServerFault = 500;

/// nullopt: none, one that is malformed, or several.
std::optional<TraceParent> parent_of(const http::HeaderList& headers) {
  std::optional<TraceParent> out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].name == kParent) {
      if (out) {
        return std::nullopt;
      }
      out = parse_trace_parent(headers[i].value);
      if (!out) {
        return std::nullopt;
      }
    }
  }
  return out;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

}  // namespace

class TraceGate::Recorded final : public PassThrough {
 public:
  Recorded(TraceGate& gate, http::RequestHead head, http::ResponseStream& stream,
           const TraceParent& parent)
      : PassThrough(stream),
        info_(krm::request_info_of(head.method, head.target,
                                   krm::parse_target(head.method, head.target))) {
    span_.trace = parent.trace;
    span_.parent = parent.span;
    span_.id = new_span_id();
    span_.kind = SpanKind::kServer;
    span_.begin = unix_microseconds();
    span_.attributes.emplace_back("http.request.method", known_method(head.method));
    span_.attributes.emplace_back("url.path", shown_text(path_of(head.target), kMostPath));
    note("user_agent.original", head.headers.get("user-agent"));
    note("kintsugi.cluster", krm::named_cluster(path_of(head.target)));
    audit_id_ = head.headers.get("audit-id");
    goes_on_ = info_.verb == "watch" || !head.protocol.empty();
    head.headers.set(kParent, trace_parent_text({span_.trace, span_.id, true}));
    begin(gate.inner_, std::move(head));
  }

  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    code_ = status;
    span_.first_byte = unix_microseconds();
    if (audit_id_.empty()) {
      audit_id_ = headers.get("audit-id");
    }
    PassThrough::send_head(status, headers, end);
    if (goes_on_) {
      guarded("span", [this] { record(Errc::kOk); });
    }
  }
  void send_data(std::string_view bytes, bool end) noexcept override {
    bytes_ += bytes.size();
    PassThrough::send_data(bytes, end);
  }
  void send_data(SharedBytes bytes, bool end) noexcept override {
    bytes_ += bytes.size();
    PassThrough::send_data(std::move(bytes), end);
  }
  void on_close(Errc cause) noexcept override {
    PassThrough::on_close(cause);
    guarded("span", [&] { record(cause); });
  }

 private:
  void note(std::string_view key, std::string_view text) {
    if (!text.empty()) {
      span_.attributes.emplace_back(key, shown_text(text, kMostText));
    }
  }

  /// The first one counts.
  void record(Errc cause) {
    if (std::exchange(recorded_, true)) {
      return;
    }
    // Only what was found is a name: nobody makes up others.
    const bool is_known = info_.is_resource && code_ != 0 && code_ != kUnauthorized &&
                          code_ != kForbidden && code_ != kNotFound && code_ < kServerFault;
    const std::string resource = (info_.group.empty() ? "" : info_.group + "/") + info_.resource;
    span_.name = is_known            ? info_.verb + " " + shown_text(resource, kMostText)
                 : info_.is_resource ? "HTTP resource"
                                     : "HTTP";
    span_.end = unix_microseconds();
    note("audit-id", audit_id_);
    if (code_ != 0) {
      span_.attributes.emplace_back("http.response.status_code", std::int64_t{code_});
    }
    span_.attributes.emplace_back("kintsugi.bytes", static_cast<std::int64_t>(bytes_));
    if (code_ >= kServerFault) {
      span_.fault = std::to_string(code_);
    } else if (cause != Errc::kOk) {
      span_.fault = errc_name(cause);
    }
    record_span(std::move(span_));
  }

  const krm::RequestInfo info_;
  Span span_;
  std::string audit_id_;
  std::uint64_t bytes_ = 0;
  int code_ = 0;
  bool goes_on_ = false, recorded_ = false;
};

bool TraceGate::is_trusted(const http::RequestHead& head, const http::PeerInfo& peer) const {
  const auth::CertificateIdentity* const certificate = auth::certificate_of(peer);
  if (certificate == nullptr || !certificate->valid) {
    return false;
  }
  const auto is_one = [this](std::string_view group) {
    return std::find(rules_.trusted_groups.begin(), rules_.trusted_groups.end(), group) !=
           rules_.trusted_groups.end();
  };
  if (certificate->from_client_ca &&
      std::any_of(certificate->organizations.begin(), certificate->organizations.end(), is_one)) {
    return true;
  }
  if (!rules_.takes_asserted || !certificate->from_request_header_ca) {
    return false;
  }
  for (std::size_t i = 0; i < head.headers.size(); ++i) {
    if (equals_ignore_case(head.headers[i].name, "x-remote-group") &&
        is_one(head.headers[i].value)) {
      return true;
    }
  }
  return false;
}

std::unique_ptr<http::RequestHandler> TraceGate::on_request(http::RequestHead head,
                                                            http::ResponseStream& stream) noexcept {
  std::optional<TraceParent> parent = parent_of(head.headers);
  if (!parent) {
    if (head.headers.contains(kParent)) {
      head.headers.remove(kParent);
      head.headers.remove(kState);
    }
    if (rules_.per_million == 0) {
      return inner_.on_request(std::move(head), stream);
    }
    parent = TraceParent{new_trace_id(), 0, false};
  }
  if (head.headers.get(kState).size() > kMostState) {
    head.headers.remove(kState);
  }
  if (!is_in_share(parent->trace, rules_.per_million) &&
      !(parent->sampled && is_trusted(head, stream.peer()))) {
    if (parent->span == 0 || parent->sampled) {  // those behind decide as we do
      const SpanId span = parent->span == 0 ? new_span_id() : parent->span;
      head.headers.set(kParent, trace_parent_text({parent->trace, span, false}));
    }
    return inner_.on_request(std::move(head), stream);
  }
  const bool head_only = std::string_view(head.method) == "HEAD";
  return http::guarded_answer("trace gate", stream, head_only, [&] {
    return std::unique_ptr<http::RequestHandler>(
        std::make_unique<Recorded>(*this, std::move(head), stream, *parent));
  });
}

}  // namespace kintsugi::serving
