#include "net/internal/client_span.h"

#include <memory>
#include <utility>

#include "base/time.h"

namespace kintsugi::net {

ClientSpan::ClientSpan(Loop& loop, const Url& url, const std::string& peer, UpstreamClass kind,
                       const http::RequestHead& head, const TraceParent& parent,
                       http::ResponseHandler& handler)
    : loop_(loop), handler_(handler), is_watch_(kind == UpstreamClass::kWatch) {
  span_.trace = parent.trace;
  span_.parent = parent.span;
  span_.id = new_span_id();
  span_.kind = SpanKind::kClient;
  span_.name = peer.empty() ? "request" : "forward";
  span_.begin = unix_microseconds();
  span_.attributes.emplace_back("http.request.method", known_method(head.method));
  span_.attributes.emplace_back("server.address", url.host);
  span_.attributes.emplace_back("server.port", static_cast<std::int64_t>(url.port));
  if (!peer.empty()) {
    span_.attributes.emplace_back("kintsugi.shard", peer);
  }
}

std::string ClientSpan::trace_parent() const {
  return trace_parent_text({span_.trace, span_.id, true});
}

void ClientSpan::detach() noexcept {
  inner_->detach();
  record(ended_ ? "" : "cancelled");
  end_later();
}

void ClientSpan::on_head(http::ResponseHead head, bool end) noexcept {
  ended_ = end;
  span_.first_byte = unix_microseconds();
  span_.attributes.emplace_back("http.response.status_code", std::int64_t{head.status});
  constexpr int kFault = 400;
  if (is_watch_ || head.status >= kFault) {
    record(head.status >= kFault ? std::to_string(head.status) : "");
  }
  handler_.on_head(std::move(head), end);
}

void ClientSpan::on_close(Errc cause) noexcept {
  record(cause == Errc::kOk ? std::string_view() : errc_name(cause));
  handler_.on_close(cause);
  end_later();
}

void ClientSpan::record(std::string_view fault) noexcept {
  if (!std::exchange(recorded_, true)) {
    span_.end = unix_microseconds();
    span_.fault = fault;
    record_span(std::move(span_));
  }
}

void ClientSpan::end_later() noexcept {
  loop_.defer([over = std::shared_ptr<ClientSpan>(this)] {});
}

}  // namespace kintsugi::net
