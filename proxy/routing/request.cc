#include "proxy/routing/request.h"

#include "auth/web_socket_token.h"
#include "http/guarded_answer.h"
#include "proxy/routing/internal/in_cluster.h"

namespace kintsugi::proxy {

LedTarget read_target(std::string_view method, std::string text, bool plain) {
  LedTarget led;
  led.text = std::move(text);
  led.target = krm::parse_target(method, led.text, {.shard = false, .opaque_proxy = plain});
  return led;
}

void Request::lead_to(LedTarget&& led) {
  head.target = std::move(led.text);
  target = std::move(led.target);
  readings = std::move(led.readings);
}

const std::shared_ptr<const krm::RequestInfo>& TargetReadings::info(
    std::string_view method, std::string_view text, const krm::RequestTarget& target) {
  if (info_ == nullptr && target.fault == krm::TargetFault::kNone) {
    info_ = std::make_shared<const krm::RequestInfo>(krm::request_info_of(method, text, target));
  } else if (info_ == nullptr) {  // refused: for the audit log, up to where another server's begins
    info_ = std::make_shared<const krm::RequestInfo>(krm::request_info_of(
        method, text, krm::parse_target(method, text, {.shard = false, .opaque_proxy = true})));
  }
  return info_;
}

const topology::Resolution& TargetReadings::found(const topology::Snapshot& snapshot,
                                                  const krm::RequestTarget& target) {
  if (looked_in_ != &snapshot || generation_ != snapshot.generation()) {
    found_ = topology::resolve(snapshot, target.cluster);
    looked_in_ = &snapshot;
    generation_ = snapshot.generation();
  }
  return found_;
}

bool has_plain_servers(const topology::Snapshot& facts) noexcept {
  return !facts.shards().empty() && facts.shards().front()->spec.plain;
}

Request understand(http::RequestHead&& head, bool plain) {
  Request request(std::move(head));
  auth::adopt_web_socket_token(request.head);
  request.target = krm::parse_target(request.head.method, request.head.target,
                                     {.shard = false, .opaque_proxy = plain});
  if (std::optional<std::string> inside = in_cluster_target(request)) {
    request.sent = std::move(request.head.target);
    request.lead_to(read_target(request.head.method, std::move(*inside), plain));
  }
  return request;
}

std::unique_ptr<http::RequestHandler> Entrance::on_request(http::RequestHead head,
                                                           http::ResponseStream& stream) noexcept {
  const bool head_only = std::string_view(head.method) == "HEAD";
  return http::guarded_answer("entrance", stream, head_only, [&] {
    return inner_.on_request(understand(std::move(head), has_plain_servers(view_->current())),
                             stream);
  });
}

}  // namespace kintsugi::proxy
