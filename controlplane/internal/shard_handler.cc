#include "controlplane/internal/shard_handler.h"

#include <optional>
#include <string_view>
#include <utility>

#include "auth/audit_event.h"
#include "base/time.h"
#include "http/guarded_answer.h"
#include "krm/request_target.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

/// A request that is answered already; its body is thrown away.
class Answered final : public http::RequestHandler {
 public:
  explicit Answered(http::ResponseStream& stream) : stream_(stream) {}
  void on_data(std::string_view bytes, bool) noexcept override { stream_.consume(bytes.size()); }
  void on_close(Errc) noexcept override {}

 private:
  http::ResponseStream& stream_;
};

void send_text(http::ResponseStream& stream, const TextAnswer& answer) {
  http::HeaderList headers;
  headers.add("content-type", "text/plain; charset=utf-8");
  headers.add("x-content-type-options", "nosniff");
  headers.add("cache-control", "no-cache, private");
  headers.add("content-length", std::to_string(answer.text.size()));
  if (answer.retry_after > 0) {
    headers.add("retry-after", std::to_string(answer.retry_after));
  }
  stream.send_head(answer.status, headers, false);
  stream.send_data(answer.text, true);
}

void send(http::ResponseStream& stream, bool head_only, int status, http::HeaderList headers,
          std::string_view body) {
  headers.add("x-content-type-options", "nosniff");
  headers.add("content-length", std::to_string(body.size()));
  stream.send_head(status, headers, head_only);
  if (!head_only) {
    stream.send_data(body, true);
  }
}

/// What is refused before anything is looked at, or asked for anew at a cleaned path.
/// @returns the status
int send_fault(http::ResponseStream& stream, const http::RequestHead& head,
               const krm::RequestTarget& target) {
  const bool head_only = head.method == "HEAD";
  http::HeaderList headers;
  if (target.fault == krm::TargetFault::kUnclean) {
    headers.add("content-type", "text/plain; charset=utf-8");
    headers.add("location", target.reason);
    send(stream, head_only, 307, std::move(headers), "Temporary Redirect\n");
    return 307;
  }
  Error error = krm::bad_request(target.reason);
  if (target.fault == krm::TargetFault::kTooLong) {
    error = krm::bad_request("the target of the request is too long");
    error.edit().http_status = 414;
  }
  headers.add("content-type", "application/json");
  const int status = krm::http_status(error);
  send(stream, head_only, status, std::move(headers), krm::to_status(error).dump() + "\n");
  return status;
}

}  // namespace

std::unique_ptr<http::RequestHandler> ShardHandler::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  const bool head_only = head.method == "HEAD";
  return http::guarded_answer("shard handler", stream, head_only,
                              [&] { return begin(std::move(head), stream); });
}

void ShardHandler::note(const http::RequestHead& head, const krm::RequestTarget& target,
                        const http::ResponseStream& stream, int status) const {
  if (!audit_) {
    return;
  }
  const krm::RequestInfo info = krm::request_info_of(head.method, head.target, target);
  const std::string id = auth::audit_id_of(head.headers.get("audit-id"));
  audit_(auth::audit_line({.id = id,
                           .stage = auth::kResponseComplete,
                           .target = head.target,
                           .info = info,
                           .address = stream.peer().address,
                           .agent = head.headers.get("user-agent"),
                           .cluster = target.cluster,
                           .status = status,
                           .received_at = unix_microseconds()}));
}

std::unique_ptr<http::RequestHandler> ShardHandler::begin(http::RequestHead head,
                                                          http::ResponseStream& stream) {
  const krm::RequestTarget target = krm::parse_target(head.method, head.target, {.shard = true});
  if (target.fault != krm::TargetFault::kNone) {
    note(head, target, stream, send_fault(stream, head, target));
    return std::make_unique<Answered>(stream);
  }
  if (target.escaped || !target.plain_prefix.empty()) {
    head.target = krm::canonical_target(head.target, target);
  }
  if (!hides_existence_) {
    if (const std::optional<TextAnswer> answer = text_answer(index_, head.target)) {
      send_text(stream, *answer);
      note(head, target, stream, answer->status);
      return std::make_unique<Answered>(stream);
    }
    if (std::optional<std::string> health = health_target(index_, head.target)) {
      head.target = std::move(*health);
      return server_.on_request(std::move(head), stream);
    }
  }
  if (std::optional<std::string> plain = without_identity(head.target, is_identity_)) {
    head.target = std::move(*plain);
  }
  return server_.on_request(std::move(head), stream);
}

}  // namespace kintsugi::controlplane
