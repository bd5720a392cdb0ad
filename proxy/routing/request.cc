#include "proxy/routing/request.h"

#include "auth/web_socket_token.h"
#include "http/guarded_answer.h"
#include "proxy/routing/internal/in_cluster.h"

namespace kintsugi::proxy {

void Request::lead_to(std::string text, bool plain) {
  head.target = std::move(text);
  target = krm::parse_target(head.method, head.target, {.shard = false, .opaque_proxy = plain});
  info_ = nullptr;
}

const std::shared_ptr<const krm::RequestInfo>& Request::info() {
  if (info_ == nullptr && target.fault == krm::TargetFault::kNone) {
    info_ = std::make_shared<const krm::RequestInfo>(
        krm::request_info_of(head.method, head.target, target));
  } else if (info_ == nullptr) {  // refused: for the audit log, up to where another server's begins
    info_ = std::make_shared<const krm::RequestInfo>(krm::request_info_of(
        head.method, head.target,
        krm::parse_target(head.method, head.target, {.shard = false, .opaque_proxy = true})));
  }
  return info_;
}

bool has_plain_servers(const topology::Snapshot& facts) noexcept {
  return !facts.shards().empty() && facts.shards().front()->spec.plain;
}

Request understand(http::RequestHead head, bool plain) {
  Request request;
  auth::adopt_web_socket_token(head);
  request.head = std::move(head);
  request.target = krm::parse_target(request.head.method, request.head.target,
                                     {.shard = false, .opaque_proxy = plain});
  if (std::optional<std::string> inside = in_cluster_target(request.head, request.target)) {
    request.sent = std::move(request.head.target);
    request.lead_to(std::move(*inside), plain);
  }
  return request;
}

std::unique_ptr<http::RequestHandler> Entrance::on_request(http::RequestHead head,
                                                           http::ResponseStream& stream) noexcept {
  const bool head_only = head.method == "HEAD";
  return http::guarded_answer("entrance", stream, head_only, [&] {
    return inner_.on_request(understand(std::move(head), has_plain_servers(view_->current())),
                             stream);
  });
}

}  // namespace kintsugi::proxy
