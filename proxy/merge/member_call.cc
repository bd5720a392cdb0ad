#include "proxy/merge/member_call.h"

#include <utility>

namespace kintsugi::proxy {

bool MemberCall::open(shards::ShardClient& client, net::UpstreamClass kind,
                      http::RequestHead head) {
  close();
  net::Upstream* upstream = client.upstream();
  if (upstream == nullptr || !client.admit()) {
    return false;
  }
  client_ = &client;
  complete_ = false;
  head.method = "GET";
  head.end_stream = true;
  head.target.insert(0, upstream->params().url.path);
  client.dress(head.headers);
  stream_ = &upstream->open(kind, head, *this);
  return true;
}

void MemberCall::close() noexcept {
  if (stream_ != nullptr) {
    std::exchange(stream_, nullptr)->detach();
  }
}

void MemberCall::on_head(http::ResponseHead head, bool end) noexcept {
  client_->on_success();
  complete_ = end;
  listener_.on_head(head);
}

void MemberCall::on_data(std::string_view bytes, bool end) noexcept {
  complete_ = end;
  if (!bytes.empty()) {
    listener_.on_data(bytes);
  }
}

void MemberCall::on_close(Errc cause) noexcept {
  if (stream_ == nullptr) {
    return;
  }
  if (!complete_ && cause != Errc::kOk && cause != Errc::kCancelled) {
    client_->on_failure(cause);
  }
  stream_ = nullptr;
  listener_.on_end(complete_ ? Errc::kOk : cause == Errc::kOk ? Errc::kClosed : cause);
}

}  // namespace kintsugi::proxy
